/// Packed texts or conversations that a run on replies also learns from, by cross-entropy, so that it keeps
/// what its replies do not show. (source: training 14)
#pragma once

#include "trainer/config/train_config.h"
#include "trainer/graph/model.h"
#include "trainer/run/training_data.h"
#include "training_data/batch_sampler.h"
#include "training_data/token_shards.h"

namespace baleen {

class SupervisedPart {
 public:
  /// All arguments outlive it; `config.sft.folder` is there. Throws `Error` as TrainingRun does for its data.
  SupervisedPart(const TrainConfig& config, const TokenTables& token_tables, ThreadPool& pool);

  /// Adds sft.weight dL/dweights, L the mean of -ln p over the targets of the step's rows; returns L in nats
  /// a token. Rows come in the order of a training run with the same seed.
  double add_gradients(std::int64_t step, const Parameters<float>& weights, const PassOptions& options,
                       Parameters<float>& gradients);

  /// For `RunInputs`.
  [[nodiscard]] std::map<std::string, std::string> data() const { return data_checksums(shards_, nullptr); }

 private:
  const TrainConfig& config_;
  TokenShards shards_;
  BatchSampler batches_;
  TrainingGraph<float> graph_;
};

}  // namespace baleen
