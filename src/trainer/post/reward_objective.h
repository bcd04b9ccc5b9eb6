/// GRPO: replies with a larger reward than the others to the same prompt become more probable.
/// (source: training 13)
#pragma once

#include <optional>

#include "trainer/graph/model.h"
#include "trainer/post/rollout_objective.h"

namespace baleen {

class RewardObjective final : public RolloutObjective {
 public:
  /// All arguments outlive it. With `config.grpo.beta` it holds the weights of `config.run.from`. Throws
  /// `Error` as reading them does.
  RewardObjective(const TrainConfig& config, const TokenTables& token_tables, const Tokenizer& tokenizer,
                  ThreadPool& pool);

  /// Figures: reward, the mean over the replies; probability_drift, the mean absolute difference of token
  /// probabilities between engine and trainer; groups_with_gradient, which replies of equal rewards are not,
  /// except with beta; masked_sequences, which the mask leaves out.
  ObjectiveReport add_gradients(std::span<const RolloutGroup> groups, const Parameters<float>& weights,
                                const PassOptions& options, Parameters<float>& gradients) override;
  [[nodiscard]] std::map<std::string, std::string> models() const override;

 private:
  struct Sums {
    double loss = 0, drift = 0;
    std::int64_t num_groups = 0, num_masked = 0;
  };
  [[nodiscard]] std::vector<double> rewards(const RolloutGroup& group) const;
  [[nodiscard]] std::vector<double> logprobs(const Parameters<float>& weights, const TrainingBatch& batch,
                                             const PassOptions& options);
  void add_group(const RolloutGroup& group, std::span<const double> advantages, std::int64_t num_sequences,
                 const Parameters<float>& weights, const PassOptions& options, Parameters<float>& gradients,
                 Sums& sums);

  const TrainConfig& config_;
  const Tokenizer& tokenizer_;
  TrainingGraph<float> graph_;
  std::optional<Parameters<float>> reference_;
};

}  // namespace baleen
