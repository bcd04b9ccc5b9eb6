#include "scheduler/reply.h"

#include <utility>

#include "base/check.h"

namespace baleen {

Reply::Reply(const Request& request, std::span<const TokenId> prompt, std::int32_t vocab_size,
             std::int64_t max_tokens, const Tokenizer& tokenizer,
             const std::shared_ptr<const MaskVocabulary>& vocabulary)
    : sampler_(request.sampling, vocab_size),
      ending_(tokenizer, {.stops = request.stops,
                          .make_divider = request.make_divider,
                          .stop_tokens = request.stop_tokens,
                          .max_tokens = max_tokens,
                          .thinking = request.thinking,
                          .repetition = request.repetition}) {
  sampler_.observe_prompt(prompt);
  if (request.rules) constraint_.emplace(*request.rules, vocabulary);
}

Result<TokenId> Reply::sample(std::span<const float> logits) {
  BALEEN_CHECK(!end());
  const std::optional<TokenId> forced = ending_.forced();
  const Result<SampledToken> sampled =
      forced ? sampler_.force(logits, *forced) : sampler_.sample(logits, mask_of(constraint_));
  if (!sampled) return Failure{sampled.error()};
  append(sampled.value());
  return sampled.value().id;
}

std::optional<SampleRow> Reply::draw_row(std::uint64_t ahead) const {
  return constraint_ ? std::nullopt : sampler_.draw_row(ahead);
}

TokenId Reply::take(TokenId chosen) {
  BALEEN_CHECK(!end() && !constraint_);
  const TokenId token = ending_.forced().value_or(chosen);
  sampler_.take(token);
  append({.id = token});
  return token;
}

void Reply::append(const SampledToken& token) {
  const MarkedText text = ending_.take(token.id);
  if (!ending_.is_stop(token.id)) {
    if (constraint_) BALEEN_CHECK(constraint_->accept(token.id));
    piece_.tokens.push_back(
        {token.id, token.logprob, {token.top_logprobs.begin(), token.top_logprobs.end()}});
  }
  piece_.text.append(text);
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
  if (last) piece_.text.append(ending_.finish());
  return std::exchange(piece_, {});
}

bool Reply::extend(DraftChain& chain, std::span<const float> logits) {
  std::optional<TokenId> guess = ending_.forced(chain.tokens);
  if (!guess) {
    const Result<TokenId> drawn = sampler_.preview(logits, mask_of(chain.constraint), chain.tokens.size());
    if (!drawn || ending_.is_stop(drawn.value())) return false;
    guess = drawn.value();
  }
  if (chain.constraint && !chain.constraint->accept(*guess)) return false;
  chain.tokens.push_back(*guess);
  return true;
}

bool Reply::extend(DraftChain& chain, TokenId chosen) const {
  const TokenId guess = ending_.forced(chain.tokens).value_or(chosen);
  if (ending_.is_stop(guess)) return false;
  chain.tokens.push_back(guess);
  return true;
}

std::span<const std::uint64_t> Reply::mask_of(std::optional<ReplyConstraint>& constraint) {
  if (!constraint || !constraint->fill(mask_)) return {};
  return mask_;
}

}  // namespace baleen
