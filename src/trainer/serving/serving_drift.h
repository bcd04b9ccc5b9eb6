/// How far the model that is served is from the one that is trained: both predict the same held-out tokens,
/// the trainer by its forward, the engine in `released` precision from the weights of an export.
/// (source: training 8)
#pragma once

#include <cstdint>

#include "parallel/thread_pool.h"
#include "trainer/run/run_checkpoint.h"

namespace baleen {

struct ServingDrift {
  std::int64_t num_targets = 0;
  double mean_difference = 0;  ///< mean over the targets of |p(token) of the trainer - of the engine|
  double max_difference = 0;
  double trainer_nats = 0;  ///< -ln p a target
  double engine_nats = 0;
};

/// Over the first `evaluation.rows` held-out rows. Holds an engine with its weights beside the trainer's.
/// Throws `Error` where there is no held-out data, and as an engine does.
[[nodiscard]] ServingDrift measure_serving_drift(const TrainConfig& config, const RunState& state,
                                                 const TokenTables& token_tables, ThreadPool& pool);

}  // namespace baleen
