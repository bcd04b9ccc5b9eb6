/// A step of this program's own trainer (trainer/run), from the file of a run: what `baleen train` computes
/// on one device, operation by operation. (source: training 11; simulation 4)
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hardware/device_profile.h"
#include "trainer/config/train_config.h"
#include "trainer/graph/pass_options.h"
#include "trainer/plan/memory_plan.h"

namespace baleen {

/// Names are those of `TrainingStepTimes`, which measures the same; of the MTP block, which that leaves
/// out, too.
struct RunPartEstimate {
  std::string name;
  double seconds = 0;
  double matrix_flops = 0;
};

struct RunStepEstimate {
  std::vector<RunPartEstimate> parts;

  [[nodiscard]] double seconds() const;
  /// Of one part; 0 where there is none of that name.
  [[nodiscard]] double seconds_of(std::string_view part) const;
};

/// Of a rank's share of a step whose rows are full, each one document, with the choices of `options`; float32
/// products. Operations of a part reach the shares of the peaks that `device` says of "train_attention",
/// "train_attention_backward" and so on (shares_of_training), else those of operations of which nothing is
/// known.
[[nodiscard]] RunStepEstimate estimate_run_step(const TrainConfig& config, const PassOptions& options,
                                                const DeviceProfile& device, std::int64_t num_ranks = 1);

/// The step by part, and what the run holds in memory, for people.
[[nodiscard]] std::string run_estimate_table(const TrainConfig& config, const DeviceProfile& device,
                                             std::int64_t num_ranks, const RunStepEstimate& estimate,
                                             const TrainingMemoryPlan& memory);
/// One JSON object with the same.
[[nodiscard]] std::string run_estimate_json(const TrainConfig& config, const RunStepEstimate& estimate,
                                            const TrainingMemoryPlan& memory);

}  // namespace baleen
