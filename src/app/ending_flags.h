/// Options that say when thinking and replies end, beside stop strings and the limit of tokens.
#pragma once

#include <cstdint>
#include <optional>

#include "base/repetition_limits.h"
#include "chat/message.h"
#include "generation/reply_ending.h"
#include "tokenizer/tokenizer.h"

namespace baleen {

class Option;
class Options;

struct EndingFlags {
  std::optional<std::int64_t> think_budget;
  RepetitionLimits repetition;
  std::int64_t loop_tokens = repetition.min_tokens;  ///< 0: nothing is a loop

  /// All but the budget.
  void add_to(Options& command);
  Option add_think_budget_to(Options& command, const char* text);

  [[nodiscard]] std::optional<RepetitionLimits> repetition_limits() const;
  /// Of a reply in this mode; none where it begins after its thinking.
  [[nodiscard]] std::optional<ThinkingLimits> thinking_limits(const Tokenizer& tokenizer,
                                                              ThinkingMode mode) const;
};

/// `; its thinking was ended at the budget`, or nothing.
[[nodiscard]] const char* thinking_end_text(ThinkingEnd end);

}  // namespace baleen
