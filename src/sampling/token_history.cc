#include "sampling/token_history.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace baleen {

TokenHistory::TokenHistory(std::int32_t vocab_size)
    : output_counts_(static_cast<std::size_t>(vocab_size)), is_seen_(static_cast<std::size_t>(vocab_size)) {
  seen_.reserve(static_cast<std::size_t>(vocab_size));
}

void TokenHistory::observe_prompt(std::span<const TokenId> ids) {
  for (const TokenId id : ids) see(id);
}

void TokenHistory::observe_output(TokenId id) {
  see(id);
  ++output_counts_[static_cast<std::size_t>(id)];
}

void TokenHistory::see(TokenId id) {
  const auto at = static_cast<std::size_t>(id);
  if (is_seen_[at]) return;
  is_seen_[at] = true;
  seen_.push_back(id);
}

void TokenHistory::penalise(const SamplingParams& params, std::span<float> logits) const {
  for (const TokenId id : seen_) {
    float& logit = logits[static_cast<std::size_t>(id)];
    if (std::isinf(logit)) continue;
    double value = logit;
    value = value > 0 ? value / params.repetition_penalty : value * params.repetition_penalty;
    const std::int32_t count = output_counts_[static_cast<std::size_t>(id)];
    value -= params.frequency_penalty * count;
    if (count > 0) value -= params.presence_penalty;
    logit = finite_logit(value);
  }
}

float finite_logit(double value) {
  constexpr double kLargest = std::numeric_limits<float>::max();
  return static_cast<float>(std::clamp(value, -kLargest, kLargest));
}

}  // namespace baleen
