#include "trainer/post/reward_objective.h"

#include <algorithm>
#include <cmath>

#include "trainer/post/policy_group.h"
#include "trainer/post/reward.h"
#include "trainer/run/import.h"
#include "trainer/run/run_inputs.h"

namespace baleen {

RewardObjective::RewardObjective(const TrainConfig& config, const TokenTables& token_tables,
                                 const Tokenizer& tokenizer, ThreadPool& pool)
    : config_(config), tokenizer_(tokenizer), graph_(config.model, token_tables, pool) {
  if (config.grpo.beta == 0) return;
  reference_.emplace(config.model);
  import_weights(config, *reference_, pool);
}

std::map<std::string, std::string> RewardObjective::models() const {
  if (!reference_) return {};
  return {{"the policy of run.from", weights_checksum(*reference_)}};
}

std::vector<double> RewardObjective::rewards(const RolloutGroup& group) const {
  std::vector<double> rewards;
  for (const Rollout& rollout : group.rollouts) {
    const std::span<const TokenId> text =
        std::span(rollout.tokens).first(rollout.tokens.size() - (rollout.ended ? 1 : 0));
    rewards.push_back(reward(config_.reward, group.prompt->rule, tokenizer_.decode(text), group.prompt->mode,
                             rollout.ended, call_tags(group.prompt->profile)));
  }
  return rewards;
}

std::vector<double> RewardObjective::logprobs(const Parameters<float>& weights, const TrainingBatch& batch,
                                              const PassOptions& options) {
  std::vector<double> result(static_cast<std::size_t>(std::ranges::count(batch.is_target, 1)));
  MeasuredLogprobs<float> measured(config_.rollout.temperature, result);
  graph_.run(weights, batch, options, nullptr, &measured);
  return result;
}

void RewardObjective::add_group(const RolloutGroup& group, std::span<const double> advantages,
                                std::int64_t num_sequences, const Parameters<float>& weights,
                                const PassOptions& options, Parameters<float>& gradients, Sums& sums) {
  const bool equal = std::ranges::all_of(advantages, [](double value) { return value == 0; });
  if (equal && !reference_) return;
  ++sums.num_groups;
  const TrainingBatch batch = rollout_batch(group.prompt->tokens, group.rollouts);
  const std::vector<double> now = logprobs(weights, batch, options);
  const std::vector<double> reference =
      reference_ ? logprobs(*reference_, batch, options) : std::vector<double>();
  const GrpoConfig& grpo = config_.grpo;
  const PolicyTargets policy =
      sampled_targets(grpo, group.rollouts, advantages, now, reference, num_sequences);
  sums.num_masked += policy.num_masked;
  double drift = 0;
  for (std::size_t i = 0; i < now.size(); ++i)
    drift += std::fabs(std::exp(now[i]) - std::exp(policy.targets[i].old_logprob));
  sums.drift += drift / static_cast<double>(now.size());
  PolicyGradient<float> objective(
      {.clip = grpo.clip, .beta = grpo.beta, .temperature = config_.rollout.temperature}, policy.targets);
  sums.loss += graph_.run(weights, batch, options, &gradients, &objective).loss_sum;
}

ObjectiveReport RewardObjective::add_gradients(std::span<const RolloutGroup> groups,
                                               const Parameters<float>& weights, const PassOptions& options,
                                               Parameters<float>& gradients) {
  std::int64_t num_sequences = 0;
  for (const RolloutGroup& group : groups) num_sequences += std::ssize(group.rollouts);
  Sums sums;
  double total_reward = 0;
  for (const RolloutGroup& group : groups) {
    const std::vector<double> of_group = rewards(group);
    for (const double value : of_group) total_reward += value;
    add_group(group, advantages(of_group, config_.grpo.normalise), num_sequences, weights, options, gradients,
              sums);
  }
  const auto num_groups = static_cast<double>(std::max<std::int64_t>(sums.num_groups, 1));
  return {.loss = sums.loss,
          .figures = {{"reward", total_reward / static_cast<double>(num_sequences)},
                      {"probability_drift", sums.drift / num_groups},
                      {"groups_with_gradient", static_cast<double>(sums.num_groups)},
                      {"masked_sequences", static_cast<double>(sums.num_masked)}}};
}

}  // namespace baleen
