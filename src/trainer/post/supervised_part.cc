#include "trainer/post/supervised_part.h"

#include <algorithm>

#include "trainer/graph/token_objective.h"

namespace baleen {
namespace {

/// The loss as it is, its gradient times a weight.
class WeightedCrossEntropy final : public TokenObjective<float> {
 public:
  explicit WeightedCrossEntropy(double weight) : weight_(static_cast<float>(weight)) {}
  double loss(std::int64_t i, TokenId token, std::span<float> z, float scale) override {
    return plain_.loss(i, token, z, weight_ * scale);
  }

 private:
  CrossEntropy<float> plain_;
  float weight_;
};

}  // namespace

SupervisedPart::SupervisedPart(const TrainConfig& config, const TokenTables& token_tables, ThreadPool& pool)
    : config_(config),
      shards_(open_training_data(config.sft.folder, DataSplit::kTrain, config.model)),
      batches_(shards_, config.sft.sequence_length, config.sft.rows, config.run.seed),
      graph_(config.model, token_tables, pool) {}

double SupervisedPart::add_gradients(std::int64_t step, const Parameters<float>& weights,
                                     const PassOptions& options, Parameters<float>& gradients) {
  WeightedCrossEntropy objective(config_.sft.weight);
  const TrainingBatch batch = batches_.batch(step * config_.sft.rows);
  const double sum = graph_.run(weights, batch, options, &gradients, &objective).loss_sum;
  return sum / static_cast<double>(std::max<std::int64_t>(batch.num_global_targets, 1));
}

}  // namespace baleen
