#include "scheduler/reply.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace baleen {

Reply::Reply(const Request& request, std::span<const TokenId> prompt, std::int32_t vocab_size,
             std::int64_t max_tokens, const Tokenizer& tokenizer,
             const std::shared_ptr<const MaskVocabulary>& vocabulary)
    : stop_tokens_(request.stop_tokens),
      stops_(request.stops),
      max_tokens_(max_tokens),
      sampler_(request.sampling, vocab_size),
      stream_(tokenizer, request.stops, request.make_divider) {
  sampler_.observe_prompt(prompt);
  if (request.rules) constraint_.emplace(*request.rules, vocabulary);
}

Result<TokenId> Reply::sample(std::span<const float> logits) {
  BALEEN_CHECK(!end_);
  const Result<SampledToken> sampled = sampler_.sample(logits, mask_of(constraint_));
  if (!sampled) return Failure{sampled.error()};
  append(sampled.value());
  return sampled.value().id;
}

std::optional<SampleRow> Reply::draw_row(std::uint64_t ahead) const {
  return constraint_ ? std::nullopt : sampler_.draw_row(ahead);
}

void Reply::take(TokenId token) {
  BALEEN_CHECK(!end_ && !constraint_);
  sampler_.take(token);
  append({.id = token});
}

void Reply::append(const SampledToken& token) {
  ++num_tokens_;
  if (is_stop(token.id)) return end(ReplyEnd::kStopToken);
  if (constraint_) BALEEN_CHECK(constraint_->accept(token.id));
  piece_.tokens.push_back({token.id, token.logprob, {token.top_logprobs.begin(), token.top_logprobs.end()}});
  show(stream_.push(token.id));
  if (!end_ && tokens_left() == 0) end(ReplyEnd::kLength);
}

void Reply::end(ReplyEnd end) {
  show(stream_.finish());
  if (!end_) end_ = end;
}

std::string Reply::score_prompt(std::span<const float> logits, TokenId token) {
  const Result<SampledToken> scored = sampler_.score(logits, token);
  if (!scored) return scored.error();
  const SampledToken& found = scored.value();
  piece_.prompt_tokens.push_back(
      {found.id, found.logprob, {found.top_logprobs.begin(), found.top_logprobs.end()}});
  return "";
}

ReplyPiece Reply::take_piece(bool last) {
  if (last) show(stream_.finish());
  return std::exchange(piece_, {});
}

bool Reply::extend(DraftChain& chain, std::span<const float> logits) {
  const auto mask = mask_of(chain.constraint);
  const Result<TokenId> guess = sampler_.preview(logits, mask, chain.tokens.size());
  if (!guess || is_stop(guess.value())) return false;
  if (chain.constraint && !chain.constraint->accept(guess.value())) return false;
  chain.tokens.push_back(guess.value());
  return true;
}

bool Reply::extend(DraftChain& chain, TokenId guess) const {
  if (is_stop(guess)) return false;
  chain.tokens.push_back(guess);
  return true;
}

std::span<const std::uint64_t> Reply::mask_of(std::optional<ReplyConstraint>& constraint) {
  if (!constraint || !constraint->fill(mask_)) return {};
  return mask_;
}

bool Reply::is_stop(TokenId token) const {
  return std::ranges::find(stop_tokens_, token) != stop_tokens_.end();
}

void Reply::show(const MarkedText& text) {
  piece_.text.append(text);
  if (!stream_.stopped() || end_) return;
  end_ = ReplyEnd::kStopString;
  stop_string_ = stops_[stream_.stop_idx()];
}

}  // namespace baleen
