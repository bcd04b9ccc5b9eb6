/// What one device of a machine does with a model that it may not hold: where its weights lie, how quickly
/// tokens and prompts come, and what would change that most.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "engine/engine_options.h"
#include "engine/memory_plan.h"
#include "simulator/cost/step_estimate.h"

namespace baleen {

/// The engine's own plan of a device.
struct DevicePlacement {
  MemoryPlan memory;
  std::optional<Failure> why_not;  ///< what keeps experts or tables from being left to the host
  bool fits = false;
};

/// `options` resolved, of one rank. `host_memory_bytes`: for experts and tables; 0: as much as is needed.
[[nodiscard]] DevicePlacement placed_on_device(const SimulatedModel& model, const EngineOptions& options,
                                               std::int64_t device_memory_bytes,
                                               std::int64_t host_memory_bytes = 0);

/// What is asked of the machine.
struct OutlookLoad {
  std::int64_t num_streams = 8;
  std::int64_t context_length = 4096;  ///< positions of each that are cached; less where the cache has less
  std::int64_t prompt_tokens = 8192;
};

struct MachineOutlook {
  /// Tokens a second of one stream, and of `num_streams` together, where experts are used evenly and by
  /// Zipf's law with exponent 1, those used least lying farthest away.
  double one_stream = 0, one_stream_zipf = 0;
  double streams = 0, streams_zipf = 0;
  double prompt_tokens_per_second = 0;
  std::int64_t bounded_replay = 0;  ///< last tokens of that prompt that all layers compute; 0: all
  std::int64_t start_bytes = 0;     ///< read from disk at start
  double start_seconds = 0;         ///< what that takes; 0: nothing is known of the disk
};

/// None where the model does not fit. `device`: with its host and its disk as `memory_levels`; `options`
/// resolved, of one rank.
[[nodiscard]] std::optional<MachineOutlook> machine_outlook(const SimulatedModel& model,
                                                            const DeviceProfile& device,
                                                            const EngineOptions& options,
                                                            const OutlookLoad& load);

/// Of devices that are not alike, or have no access to each other's memory.
struct StagedOutlook {
  ParallelPlan plan;  ///< resolved: a pipeline of all of them, in their order, with the layers of each stage
  MachineOutlook outlook;
};

/// The same of several devices of one machine, as a pipeline: layers by the memory and the speed of each.
/// None where the model does not fit on them.
[[nodiscard]] std::optional<StagedOutlook> staged_outlook(const SimulatedModel& model,
                                                          std::span<const DeviceProfile> devices,
                                                          const EngineOptions& options,
                                                          const OutlookLoad& load);

/// A change of the machine or of its use, with what it is predicted to bring.
struct MachineChange {
  std::string what;  ///< "128 GB of host memory instead of 32"
  MachineOutlook outlook;
  double gain = 1;  ///< factor of one stream's speed, experts used evenly
};

/// Changes that help, the largest gain first: more memory of the host, or quicker, a quicker link or disk,
/// a second device, a smaller context, smaller steps. Empty where the model does not fit as it is.
/// `host_memory_bytes`: of the machine; 0: as much as is needed.
[[nodiscard]] std::vector<MachineChange> helpful_changes(const SimulatedModel& model,
                                                         const DeviceProfile& device,
                                                         const EngineOptions& options,
                                                         const OutlookLoad& load,
                                                         std::int64_t host_memory_bytes);

}  // namespace baleen
