#include "app/ending_flags.h"

#include "app/option_ranges.h"
#include "app/options.h"
#include "chat/format.h"

namespace baleen {

void EndingFlags::add_to(Options& command) {
  using Limits = RepetitionLimits;
  command.integer("--loop-tokens", loop_tokens, {0, Limits::kMaxTokens},
                  "A text loops once so many tokens of words (four times as many of numbers and signs) have "
                  "repeated: thinking is then ended, a reply ends; 0: never");
  command.integer("--loop-repeats", repetition.min_count, {2, Limits::kMaxCount},
                  "And once its period has come so many times");
  command.integer("--loop-period", repetition.max_period, {1, Limits::kMaxPeriod},
                  "Longest period of a loop, in tokens");
}

Option EndingFlags::add_think_budget_to(Options& command, const char* text) {
  return command.integer("--think-budget", think_budget, kTokensRange, text);
}

std::optional<RepetitionLimits> EndingFlags::repetition_limits() const {
  if (loop_tokens == 0) return std::nullopt;
  RepetitionLimits limits = repetition;
  limits.min_tokens = loop_tokens;
  return limits;
}

std::optional<ThinkingLimits> EndingFlags::thinking_limits(const Tokenizer& tokenizer,
                                                           ThinkingMode mode) const {
  const std::optional<TokenId> end_token = tokenizer.id_of(chat_format::kEndThink);
  if (mode != ThinkingMode::kThinking || !end_token) return std::nullopt;
  return ThinkingLimits{.end_token = *end_token, .budget = think_budget};
}

const char* thinking_end_text(ThinkingEnd end) {
  switch (end) {
    case ThinkingEnd::kBudget:
      return "; its thinking was ended at the budget";
    case ThinkingEnd::kRepetition:
      return "; its thinking looped and was ended";
    case ThinkingEnd::kNothing:
    case ThinkingEnd::kModel:
      break;
  }
  return "";
}

}  // namespace baleen
