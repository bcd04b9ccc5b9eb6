/// The loss of a model on held-out rows.
#pragma once

#include <cstdint>

#include "trainer/run/micro_batches.h"
#include "training_data/batch_sampler.h"
#include "training_data/token_shards.h"

namespace baleen {

struct Evaluation {
  double nats_per_token = 0;
  /// nats_per_token over ln 2 and the split's mean bytes a target: exact where all its rows are evaluated.
  double bits_per_byte = 0;
  std::int64_t num_targets = 0;
};

/// Over the first `num_rows` rows of `sampler`, `rows_at_once` in each pass, without the MTP blocks. The same
/// on all ranks, which share the passes.
[[nodiscard]] Evaluation evaluate(const TrainingRanks& ranks, MicroBatches& micro_batches,
                                  const Parameters<float>& weights, const PassOptions& options,
                                  const BatchSampler& sampler, const TokenShards& shards,
                                  std::int64_t num_rows, std::int64_t rows_at_once);

}  // namespace baleen
