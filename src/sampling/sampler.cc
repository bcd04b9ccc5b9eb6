#include "sampling/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "sampling/philox.h"
#include "sampling/token_mask.h"

namespace baleen {
namespace {

std::uint64_t system_seed() {
  std::random_device device;
  return std::uint64_t{device()} << 32 | device();
}

std::size_t first_index_of(std::span<const float> logits, float value) {
  return static_cast<std::size_t>(std::find(logits.begin(), logits.end(), value) - logits.begin());
}

Failure bad_logits(std::span<const float> logits, const LogitExtremes& extremes) {
  if (extremes.has_nan) {
    const auto nan =
        std::find_if(logits.begin(), logits.end(), [](float logit) { return std::isnan(logit); });
    return failure("the logit of token {} is NaN", nan - logits.begin());
  }
  if (extremes.max > 0)
    return failure("the logit of token {} is +infinity", first_index_of(logits, extremes.max));
  return failure("all {} logits are -infinity: no token is left to choose", logits.size());
}

}  // namespace

Sampler::Sampler(SamplingParams params, std::int32_t vocab_size)
    : params_(std::move(params)),
      vocab_size_(vocab_size),
      seed_(params_.seed ? *params_.seed : system_seed()) {
  BALEEN_CHECK_LE(1, vocab_size);
  BALEEN_CHECK(params_.validate(vocab_size).empty());
  if (params_.penalises_counts()) history_.emplace(vocab_size);
  if (params_.dry.penalises()) dry_.emplace(params_.dry);
  if (params_.adjusts_logits()) scores_.resize(static_cast<std::size_t>(vocab_size));
}

void Sampler::observe_prompt(std::span<const TokenId> ids) {
  for (const TokenId id : ids) BALEEN_CHECK(id >= 0 && id < vocab_size_);
  if (history_) history_->observe_prompt(ids);
  if (dry_) dry_->observe(ids);
}

Result<SampledToken> Sampler::sample(std::span<const float> logits, std::span<const std::uint64_t> mask) {
  const LogitExtremes raw = logit_extremes(logits);
  const Result<TokenId> id = choose(logits, raw, mask, num_sampled_);
  if (!id) return Failure{id.error()};
  SampledToken token{.id = id.value()};
  if (params_.num_logprobs != SamplingParams::kNoLogprobs) {
    const double log_sum = log_sum_exp(logits, raw.max);
    token.logprob = logits[static_cast<std::size_t>(token.id)] - log_sum;
    find_top_logprobs(logits, log_sum);
    token.top_logprobs = std::span(top_).first(num_top_);
  }
  count(token.id);
  return token;
}

void Sampler::count(TokenId id) {
  if (history_) history_->observe_output(id);
  if (dry_) dry_->observe({&id, 1});
  ++num_sampled_;
}

Result<TokenId> Sampler::preview(std::span<const float> logits, std::span<const std::uint64_t> mask,
                                 std::uint64_t ahead) {
  return choose(logits, logit_extremes(logits), mask, num_sampled_ + ahead);
}

std::optional<SampleRow> Sampler::draw_row(std::uint64_t ahead) const {
  if (params_.adjusts_logits() || params_.num_logprobs != SamplingParams::kNoLogprobs) return std::nullopt;
  return SampleRow{.temperature = params_.temperature,
                   .top_k = params_.top_k,
                   .top_p = params_.top_p,
                   .min_p = params_.min_p,
                   .uniform = uniform_draw(seed_, num_sampled_ + ahead)};
}

void Sampler::take(TokenId id) {
  BALEEN_CHECK(id >= 0 && id < vocab_size_ && draw_row(0).has_value());
  count(id);
}

Result<SampledToken> Sampler::force(std::span<const float> logits, TokenId id) {
  SampledToken token{.id = id};
  if (params_.num_logprobs != SamplingParams::kNoLogprobs) {
    const Result<SampledToken> scored = score(logits, id);
    if (!scored) return Failure{scored.error()};
    token = scored.value();
  }
  count(id);
  return token;
}

Result<TokenId> Sampler::choose(std::span<const float> logits, const LogitExtremes& raw,
                                std::span<const std::uint64_t> mask, std::uint64_t draw_idx) {
  BALEEN_CHECK_EQ(logits.size(), static_cast<std::size_t>(vocab_size_));
  if (raw.has_nan || std::isinf(raw.max)) return bad_logits(logits, raw);

  std::span<const float> scores = adjusted(logits);
  if (!mask.empty()) {
    scores_.resize(logits.size());
    scores = std::span(scores_).first(gather_allowed(scores, mask, scores_));
    if (scores.empty()) return failure("the mask allows none of the {} tokens", logits.size());
  }
  const bool as_they_came = mask.empty() && !params_.adjusts_logits();
  const float max = as_they_came ? raw.max : logit_extremes(scores).max;
  if (std::isinf(max))
    return failure("the {} tokens that the mask allows all have logit -infinity", scores.size());
  const std::size_t chosen = params_.greedy() ? first_index_of(scores, max) : draw(scores, max, draw_idx);
  return mask.empty() ? static_cast<TokenId>(chosen) : allowed_token(mask, chosen);
}

std::span<const float> Sampler::adjusted(std::span<const float> logits) {
  if (!params_.adjusts_logits()) return logits;
  std::copy(logits.begin(), logits.end(), scores_.begin());
  for (const auto& [id, bias] : params_.logit_bias) {
    float& logit = scores_[static_cast<std::size_t>(id)];
    if (!std::isinf(logit)) logit = finite_logit(logit + bias);
  }
  if (history_) history_->penalise(params_, scores_);
  if (dry_) dry_->penalise(scores_);
  return scores_;
}

std::size_t Sampler::draw(std::span<const float> logits, float max, std::uint64_t draw_idx) {
  const double temperature = params_.temperature;
  CandidateCut cut = min_p_cut(max, temperature, params_.min_p);
  if (params_.top_k > 0) cut = cut_finder_.top_k(logits, cut, params_.top_k);
  if (params_.top_p < 1) cut = cut_finder_.top_p(logits, cut, max, temperature, params_.top_p);

  // One pass sums the weights chunk by chunk; then only the chunk that the draw falls into is looked at
  // again.
  std::array<double, kWeightChunk> buffer;
  const auto weights_at = [&](std::size_t chunk_idx) -> std::span<const double> {
    const std::size_t first = chunk_idx * kWeightChunk;
    const auto chunk = logits.subspan(first, std::min(kWeightChunk, logits.size() - first));
    const auto weights = std::span(buffer).first(chunk.size());
    const bool any = kept_weights(chunk, static_cast<TokenId>(first), cut, max, temperature, weights);
    return any ? weights : weights.first(0);
  };
  chunk_mass_.resize((logits.size() + kWeightChunk - 1) / kWeightChunk);
  double total = 0.0;
  for (std::size_t chunk_idx = 0; chunk_idx < chunk_mass_.size(); ++chunk_idx) {
    chunk_mass_[chunk_idx] = 0.0;
    for (const double weight : weights_at(chunk_idx)) chunk_mass_[chunk_idx] += weight;
    total += chunk_mass_[chunk_idx];
  }

  double target = uniform_draw(seed_, draw_idx) * total;
  std::size_t chunk_idx = 0, last_with_mass = 0;
  for (; chunk_idx < chunk_mass_.size() && target >= chunk_mass_[chunk_idx]; ++chunk_idx) {
    if (chunk_mass_[chunk_idx] > 0) last_with_mass = chunk_idx;
    target -= chunk_mass_[chunk_idx];
  }
  // Rounding can leave a target just past the end: it belongs to the last token with any weight.
  if (chunk_idx == chunk_mass_.size()) chunk_idx = last_with_mass;
  const auto weights = weights_at(chunk_idx);
  std::size_t chosen = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] == 0) continue;
    chosen = i;
    if (target < weights[i]) break;
    target -= weights[i];
  }
  return chunk_idx * kWeightChunk + chosen;
}

Result<SampledToken> Sampler::score(std::span<const float> logits, TokenId id) {
  const LogitExtremes raw = logit_extremes(logits);
  if (raw.has_nan || !std::isfinite(raw.max))
    return failure("the logits of a token that was not sampled are not finite");
  const double log_sum = log_sum_exp(logits, raw.max);
  SampledToken token{.id = id, .logprob = logits[static_cast<std::size_t>(id)] - log_sum};
  find_top_logprobs(logits, log_sum);
  token.top_logprobs = std::span(top_).first(num_top_);
  return token;
}

void Sampler::find_top_logprobs(std::span<const float> logits, double log_sum) {
  // Insertion into at most twenty: nearly every token fails the first comparison.
  const auto capacity = static_cast<std::size_t>(params_.num_logprobs);
  num_top_ = 0;
  if (capacity == 0) return;
  std::array<Candidate, SamplingParams::kMaxLogprobs> best{};
  for (std::size_t id = 0; id < logits.size(); ++id) {
    const float logit = logits[id];
    if (num_top_ == capacity ? logit <= best[capacity - 1].logit : std::isinf(logit)) continue;
    std::size_t at = num_top_ < capacity ? num_top_++ : capacity - 1;
    for (; at > 0 && best[at - 1].logit < logit; --at) best[at] = best[at - 1];
    best[at] = {logit, static_cast<TokenId>(id)};
  }
  for (std::size_t i = 0; i < num_top_; ++i) top_[i] = {best[i].id, best[i].logit - log_sum};
}

}  // namespace baleen
