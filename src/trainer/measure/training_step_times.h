/// Where the time of a training step goes, measured on this machine part by part at a configuration's sizes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "parallel/thread_pool.h"
#include "trainer/config/train_config.h"
#include "trainer/graph/pass_options.h"

namespace baleen {

/// Of a whole step: all micro-batches and layers, without the MTP block.
struct PartTime {
  std::string name;
  double seconds = 0;
  double flops = 0;  ///< what the model computes (trainer/run/model_flops.h); 0: the part is no product
};

struct TrainingStepTimes {
  std::vector<PartTime> parts;  ///< together the step, but for the MTP block and how times vary
  std::int64_t num_tokens = 0;  ///< tokens that the step has
};

/// Of the passes that are measured: a step after all stages of the indexers, without the MTP block.
[[nodiscard]] PassOptions measured_pass_options(const TrainConfig& config);

/// Rows of random tokens, each one document, through new weights: no data is needed. A part's time is the
/// least of `num_runs` by itself; mixing is what of a block is neither attention nor experts. Takes about
/// three forwards and backwards of a micro-batch a run. Memory: weights, gradients, optimiser states,
/// activations of a block.
[[nodiscard]] TrainingStepTimes measure_step(const TrainConfig& config, ThreadPool& pool, int num_runs = 3);

}  // namespace baleen
