/// Stop strings over text that arrives in pieces: what is safe to show now, and when to stop.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace baleen {

/// Finds the stop string whose occurrence ends first in the text; of those that end at the same byte, the
/// longest. So the answer depends on the text alone, never on how it was cut into pieces. The shown text ends
/// where that occurrence begins. Text that may yet turn out to begin a stop string is held back: at most one
/// byte less than the longest stop string. If every piece and every stop string is whole UTF-8 characters, so
/// is all that is shown.
///
/// Time is linear in the text times the number of stop strings (Knuth-Morris-Pratt, one state for each).
class StopDetector {
 public:
  /// Empty stop strings match nothing.
  explicit StopDetector(std::vector<std::string> stops);

  /// Takes the next piece; returns the text that may be shown beyond what was returned before. Nothing after
  /// a stop.
  [[nodiscard]] std::string feed(std::string_view piece);

  /// The text ended without a stop: what was held back. What is fed next is another text.
  [[nodiscard]] std::string finish();

  [[nodiscard]] bool stopped() const { return stop_idx_.has_value(); }
  /// Which of the stop strings it was, by its place in the list; only after `stopped()`.
  [[nodiscard]] std::size_t stop_idx() const { return *stop_idx_; }

 private:
  struct Pattern {
    std::string text;
    /// border[n]: length of the longest proper prefix of text[0, n) that is also its suffix.
    std::vector<std::size_t> border;
    std::size_t matched = 0;  ///< longest prefix of `text` that the input so far ends with
  };

  std::vector<Pattern> patterns_;
  std::string held_;  // input not yet returned
  std::optional<std::size_t> stop_idx_;
};

}  // namespace baleen
