#include "generation/reply_ending.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/check.h"

namespace baleen {

ReplyEnding::ReplyEnding(const Tokenizer& tokenizer, EndingRules rules)
    : tokenizer_(&tokenizer),
      rules_(std::move(rules)),
      stream_(tokenizer, rules_.stops, rules_.make_divider) {
  BALEEN_CHECK_LE(1, rules_.max_tokens);
  if (rules_.repetition) repetition_.emplace(*rules_.repetition);
}

std::int64_t ReplyEnding::budget_left() const {
  // As long as it thinks, every token so far is thinking.
  return rules_.thinking->budget ? *rules_.thinking->budget - num_tokens_
                                 : std::numeric_limits<std::int64_t>::max();
}

std::optional<TokenId> ReplyEnding::forced(std::span<const TokenId> drafts) const {
  if (!thinks()) return std::nullopt;
  const TokenId end_token = rules_.thinking->end_token;
  const bool is_due = drafts.empty() ? thinking_loops_ || budget_left() <= 0
                                     : budget_left() == std::ssize(drafts) &&
                                           std::ranges::find(drafts, end_token) == drafts.end();
  return is_due ? std::optional(end_token) : std::nullopt;
}

bool ReplyEnding::may_force(std::int64_t count) const {
  return thinks() && count > 0 && (thinking_loops_ || budget_left() < count);
}

MarkedText ReplyEnding::take(TokenId token) {
  BALEEN_CHECK(!end_);
  const std::optional<TokenId> must_come = forced();
  BALEEN_CHECK(!must_come || token == *must_come);
  if (must_come) stream_.drop_unfinished();
  MarkedText shown;
  if (thinks() && token == rules_.thinking->end_token) end_thinking();
  ++num_tokens_;
  if (is_stop(token)) {
    shown = finish();
    if (!end_) end_ = ReplyEnd::kStopToken;
    return shown;
  }
  shown = stream_.push(token);
  note_stop_string();
  const bool loops = repetition_ && repetition_->add(token, has_letter(tokenizer_->bytes_of(token)));
  if (thinks()) thinking_loops_ = loops;
  if (end_ || (tokens_left() > 0 && (!loops || thinks()))) return shown;
  shown.append(finish());
  if (!end_) end_ = loops && !thinks() ? ReplyEnd::kRepetition : ReplyEnd::kLength;
  return shown;
}

MarkedText ReplyEnding::finish() {
  const MarkedText rest = stream_.finish();
  note_stop_string();
  return rest;
}

bool ReplyEnding::is_stop(TokenId token) const {
  return std::ranges::find(rules_.stop_tokens, token) != rules_.stop_tokens.end();
}

void ReplyEnding::end_thinking() {
  thinking_end_ = thinking_loops_      ? ThinkingEnd::kRepetition
                  : budget_left() <= 0 ? ThinkingEnd::kBudget
                                       : ThinkingEnd::kModel;
  if (repetition_) repetition_->restart();
}

void ReplyEnding::note_stop_string() {
  if (end_ || !stream_.stopped()) return;
  end_ = ReplyEnd::kStopString;
  stop_string_ = rules_.stops[stream_.stop_idx()];
}

}  // namespace baleen
