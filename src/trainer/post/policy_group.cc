#include "trainer/post/policy_group.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace baleen {

std::vector<double> advantages(std::span<const double> rewards, bool normalise) {
  if (std::ranges::min(rewards) == std::ranges::max(rewards)) return std::vector<double>(rewards.size());
  const auto count = static_cast<double>(rewards.size());
  const double mean = std::accumulate(rewards.begin(), rewards.end(), 0.0) / count;
  std::vector<double> result;
  double squares = 0;
  for (const double reward : rewards) {
    result.push_back(reward - mean);
    squares += result.back() * result.back();
  }
  const double deviation = std::sqrt(squares / count);
  if (!normalise) return result;
  for (double& value : result) value /= deviation;
  return result;
}

TrainingBatch rollout_batch(std::span<const TokenId> prompt, std::span<const Rollout> rollouts) {
  TrainingBatch batch;
  batch.row_begin.push_back(0);
  for (const Rollout& rollout : rollouts) {
    const std::int64_t begin = batch.num_tokens();
    batch.tokens.insert(batch.tokens.end(), prompt.begin(), prompt.end());
    batch.is_target.insert(batch.is_target.end(), prompt.size(), 0);
    batch.tokens.insert(batch.tokens.end(), rollout.tokens.begin(), rollout.tokens.end());
    batch.is_target.insert(batch.is_target.end(), rollout.tokens.size(), 1);
    batch.documents.push_back({begin, batch.num_tokens()});
    batch.row_begin.push_back(batch.num_tokens());
  }
  batch.num_global_targets = 1;
  return batch;
}

PolicyTargets sampled_targets(const GrpoConfig& config, std::span<const Rollout> rollouts,
                              std::span<const double> advantages, std::span<const double> logprobs,
                              std::span<const double> reference_logprobs, std::int64_t num_sequences) {
  PolicyTargets result;
  for (std::size_t i = 0; i < rollouts.size(); ++i) {
    const std::vector<double>& old = rollouts[i].logprobs;
    const std::size_t begin = result.targets.size();
    const auto length = static_cast<double>(old.size());
    double drift = 0;
    for (std::size_t t = 0; t < old.size(); ++t) drift += (old[t] - logprobs[begin + t]) / length;
    const bool masked = advantages[i] < 0 && drift > config.mask_threshold;
    if (masked) ++result.num_masked;
    for (std::size_t t = 0; t < old.size(); ++t) {
      result.targets.push_back(
          {.old_logprob = old[t],
           .reference_logprob = reference_logprobs.empty() ? 0 : reference_logprobs[begin + t],
           .advantage = masked ? 0 : advantages[i],
           .weight = 1 / (static_cast<double>(num_sequences) * length)});
    }
  }
  return result;
}

}  // namespace baleen
