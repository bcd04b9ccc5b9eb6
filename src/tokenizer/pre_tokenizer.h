/// Cuts text into the pieces that byte pairs are merged within: each pattern in turn cuts the pieces of the
/// one before, into its matches and what lies between them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/split_pattern.h"

namespace baleen {

class PreTokenizer {
 public:
  /// Throws `Error` when a pattern is not usable; `name` is what sentences call the file.
  PreTokenizer(const std::vector<SplitRule>& rules, std::string_view name);

  /// Why and where a split could not be finished.
  struct GaveUp {
    std::string why;
    const char* at = nullptr;  ///< where it stands in the text
  };

  /// Calls `take(piece)` for every piece of `text` in order; none is empty and together they are all of it.
  /// Pieces are handed on as they are found, so that none of the passes stores anything. `text` is valid
  /// UTF-8.
  template <class Take>
  [[nodiscard]] std::optional<GaveUp> split(std::string_view text, MatchScratch& scratch, Take&& take) const {
    return split_from(0, text, scratch, take);
  }

 private:
  template <class Take>
  std::optional<GaveUp> split_from(std::size_t level, std::string_view text, MatchScratch& scratch,
                                   Take& take) const {
    if (text.empty()) return std::nullopt;
    if (level == patterns_.size()) {
      take(text);
      return std::nullopt;
    }
    std::size_t done = 0;
    while (done < text.size()) {
      const SplitPattern::Match match = patterns_[level].find(text, done, scratch);
      if (match.status == SplitPattern::Match::Status::kNone) break;
      if (match.status == SplitPattern::Match::Status::kGaveUp) {
        return gave_up(patterns_[level], match, text.data() + done);
      }
      if (auto error = split_from(level + 1, text.substr(done, match.begin - done), scratch, take))
        return error;
      if (auto error =
              split_from(level + 1, text.substr(match.begin, match.end - match.begin), scratch, take)) {
        return error;
      }
      done = match.end;
    }
    return split_from(level + 1, text.substr(done), scratch, take);
  }

  static GaveUp gave_up(const SplitPattern& pattern, const SplitPattern::Match& match, const char* at);

  std::vector<SplitPattern> patterns_;
};

}  // namespace baleen
