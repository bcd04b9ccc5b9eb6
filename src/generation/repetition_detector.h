/// Loops in a reply while it is generated: its newest tokens repeat, exactly or nearly, with some period.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/repetition_limits.h"
#include "tensor/ragged_batch.h"

namespace baleen {

/// For each period p the detector keeps a score, in quarters of a word: a token that equals the one p before
/// it adds kWord where it has a letter and kSign where it has none, one that differs takes kDifference away,
/// and a score does not fall below 0. A token that is left out or put in moves the score to the period p - 1
/// or p + 1, for kDifference too. There is a loop once the score of some period is that of `min_tokens`
/// words, and of `min_count` - 1 periods of words.
///
/// So an exact loop of words is found min_tokens (or (min_count - 1) p, if that is more) after its first
/// period, and one of numbers, signs and white space alone after four times as many: rows of zeros, rules and
/// empty cells repeat in many a sound reply. Where a share d of the words differs from period to period (a
/// counter, a changing word) the loop is found after min_tokens / (1 - 6 d), and never if d is a sixth or
/// more: a list, a table or a log says something new in each line.
///
/// Exact whatever came before the loop. A token costs a few additions and comparisons for each period, which
/// the compiler makes vector instructions of. Memory: 16 bytes for each period (8 KB at 512), reserved at
/// construction.
class RepetitionDetector {
 public:
  static constexpr std::int32_t kWord = 4, kSign = 1, kDifference = 20;

  /// The limits are in their ranges.
  explicit RepetitionDetector(const RepetitionLimits& limits);

  /// Takes the next token; `is_word`: it has a letter. True if the text loops now.
  [[nodiscard]] bool add(TokenId token, bool is_word);
  /// What comes next is another text.
  void restart();

 private:
  std::int32_t least_score_;   ///< wanted of every period
  std::int32_t period_score_;  ///< times the period: wanted of that period
  std::size_t num_periods_;
  /// The latest num_periods_ tokens, oldest first, from `oldest_` on; each stands twice, num_periods_ apart.
  std::vector<TokenId> recent_;
  std::size_t oldest_ = 0;
  /// Of the periods from the longest to the shortest, between two that are always 0; and the next of them.
  std::vector<std::int32_t> scores_, next_;
};

/// Whether a token of these bytes counts as a word: it has a letter of any script.
[[nodiscard]] bool has_letter(std::string_view bytes);

}  // namespace baleen
