/// What a training run on text holds in memory, by part, from its configuration alone.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/config/train_config.h"

namespace baleen {

struct TrainingMemoryPart {
  std::string name;
  std::int64_t bytes = 0;
  std::string lowered_by;  ///< keys of the configuration; empty: the model's size alone
};

/// At the moment that holds most, over all steps of the run: the process as the system counts it (resident).
struct TrainingMemoryPlan {
  std::vector<TrainingMemoryPart> parts;

  [[nodiscard]] std::int64_t total_bytes() const;
  /// A line for each part, and their sum.
  [[nodiscard]] std::string table() const;
};

/// Of one of `num_ranks` processes, that with most optimiser states; `num_threads` of it. Runs on replies
/// hold an engine and its weights besides, which are not counted.
[[nodiscard]] TrainingMemoryPlan plan_training_memory(const TrainConfig& config, std::int64_t num_threads,
                                                      std::int64_t num_ranks = 1);

/// Throws `Error` where `plan` takes more than `available_bytes`: what is needed by part, and keys that
/// lower it.
void check_fits(const TrainingMemoryPlan& plan, std::int64_t available_bytes);

}  // namespace baleen
