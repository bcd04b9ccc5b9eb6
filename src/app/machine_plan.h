/// How the ranks of a command are placed on the GPUs of this machine when no option says so.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/engine_options.h"
#include "simulator/search/recommended_plan.h"

namespace baleen {

/// What a command does with the engine.
struct EnginePurpose {
  PlanGoal goal = PlanGoal::kOneConversation;
  std::int64_t sequences = 1;  ///< at a time
};

/// Whether the ranks of this program execute the plan on such devices; the simulator knows more plans
/// (docs/ranks.md).
[[nodiscard]] bool ranks_can_run(const ParallelPlan& plan, const ModelConfig& config,
                                 const DeviceChoice& device);
/// The same of a plan that no option requests: without two micro-batches, which were slower wherever they
/// were measured, whatever the estimate says of them.
[[nodiscard]] bool can_be_recommended(const ParallelPlan& plan, const ModelConfig& config,
                                      const DeviceChoice& device);

/// For options whose device is a GPU that no option named: without a plan, sets the plan that the simulator
/// recommends for `gpus`, and the GPUs of its ranks; of a plan, the GPUs of its ranks. Leaves the options as
/// they are where one GPU is best. Returns the line that says what was chosen and why; empty with one GPU.
/// With fewer GPUs than ranks, or a plan that GPUs do not run, the ranks run on the CPU.
[[nodiscard]] std::string place_on_gpus(EngineOptions& options, const SimulatedModel& model,
                                        const EnginePurpose& purpose, const GpuGroup& gpus);

/// The same for GPUs of which no two reach each other's memory, alike or not. A model that one of them holds
/// runs there; otherwise all of them are a pipeline, each with as many layers as its memory and its speed
/// suggest, and messages go through the host's memory.
[[nodiscard]] std::string place_in_stages(EngineOptions& options, const SimulatedModel& model,
                                          const std::vector<SeparateGpu>& gpus);

}  // namespace baleen
