/// Patterns as a backtracking matcher reads them: what automata are compared with.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace baleen {

class PatternMatcher {
 public:
  /// Throws `Error` when the pattern is malformed.
  explicit PatternMatcher(const std::string& pattern);
  ~PatternMatcher();
  PatternMatcher(const PatternMatcher&) = delete;
  PatternMatcher& operator=(const PatternMatcher&) = delete;

  /// Whether the pattern is found in `text`, which must be valid UTF-8. Nothing: the matcher gave up.
  [[nodiscard]] std::optional<bool> finds(std::string_view text) const;

 private:
  struct Code;
  std::unique_ptr<Code> code_;
};

}  // namespace baleen
