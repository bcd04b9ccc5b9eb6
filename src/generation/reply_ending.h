/// When a reply ends, and when its thinking does: the one place that decides it, for one reply at a time
/// (`generate`) and for many (scheduler/).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/marked_text.h"
#include "base/reply_divider.h"
#include "base/reply_end.h"
#include "generation/repetition_detector.h"
#include "generation/reply_stream.h"
#include "tokenizer/tokenizer.h"

namespace baleen {

/// Of a reply whose prompt opened its thinking.
struct ThinkingLimits {
  TokenId end_token = 0;               ///< `</think>`: what comes before is thinking
  std::optional<std::int64_t> budget;  ///< tokens of thinking at most, `end_token` apart; none: any number
};

/// What ended the thinking of a reply.
enum class ThinkingEnd : std::uint8_t {
  kNothing,  ///< it has not ended, or there is none
  kModel,
  kBudget,
  kRepetition,
};

struct EndingRules {
  std::vector<std::string> stops;              ///< stop strings in the reply's content, not shown
  MakeReplyDivider make_divider = {};          ///< says what is content; empty: all of it
  std::vector<TokenId> stop_tokens;            ///< end the reply, not shown
  std::int64_t max_tokens = 1;                 ///< at least 1
  std::optional<ThinkingLimits> thinking;      ///< none: the reply begins after its thinking
  std::optional<RepetitionLimits> repetition;  ///< none: nothing is a loop
};

/// Fed the tokens of a reply, gives their text as far as it may be shown, and says how the reply ended once
/// it has: by a stop token, a stop string, its limit, or a loop in what is no thinking.
///
/// Thinking that loops or has used its budget up is ended: `forced` then names `</think>`, which is the next
/// token whatever the logits say, once. The chat format writes nothing between the thinking and `</think>`,
/// so nothing else is forced; the beginning of a character that the budget cut is not shown. What follows is
/// looked at for loops anew.
///
/// All of it follows from the tokens alone. So it is the same with drafts and without, in any batch, and
/// after a preemption.
class ReplyEnding {
 public:
  /// The tokenizer outlives this.
  ReplyEnding(const Tokenizer& tokenizer, EndingRules rules);

  /// The token that must come after `drafts`, guesses at the tokens to come; nothing where the logits decide.
  [[nodiscard]] std::optional<TokenId> forced(std::span<const TokenId> drafts = {}) const;
  /// Whether one of the next `count` tokens is forced if the thinking lasts until then: what is fed ahead of
  /// the host could be another one.
  [[nodiscard]] bool may_force(std::int64_t count) const;

  /// The next token: a forced one is what `forced` says. What may be shown from now on. Not after the end.
  [[nodiscard]] MarkedText take(TokenId token);
  /// No token follows: what was held back. A stop string may be found only now.
  [[nodiscard]] MarkedText finish();

  [[nodiscard]] std::optional<ReplyEnd> end() const { return end_; }
  /// Which one, after kStopString; else empty.
  [[nodiscard]] const std::string& stop_string() const { return stop_string_; }
  [[nodiscard]] bool is_stop(TokenId token) const;
  /// Stop token and `</think>` included.
  [[nodiscard]] std::int64_t num_tokens() const { return num_tokens_; }
  [[nodiscard]] std::int64_t tokens_left() const { return rules_.max_tokens - num_tokens_; }
  [[nodiscard]] ThinkingEnd thinking_end() const { return thinking_end_; }

 private:
  [[nodiscard]] bool thinks() const { return rules_.thinking && thinking_end_ == ThinkingEnd::kNothing; }
  /// Tokens of thinking that are left; more than there can be without a budget.
  [[nodiscard]] std::int64_t budget_left() const;
  void end_thinking();
  void note_stop_string();

  const Tokenizer* tokenizer_;
  EndingRules rules_;
  ReplyStream stream_;
  std::optional<RepetitionDetector> repetition_;
  bool thinking_loops_ = false;
  ThinkingEnd thinking_end_ = ThinkingEnd::kNothing;
  std::int64_t num_tokens_ = 0;
  std::optional<ReplyEnd> end_;
  std::string stop_string_;
};

}  // namespace baleen
