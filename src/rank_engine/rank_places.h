/// On which GPUs ranks are that are processes, and how they exchange messages.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/memory_plan.h"

namespace baleen {

/// The options of processes on GPUs: a plan of as many ranks where there was none, a GPU for each rank, and
/// NCCL where they are on several hosts. `hosts`: of each rank (`hosts_of_ranks`). `gpus`: of this process.
///
///     --devices as long as there are ranks    rank i has the i-th
///     else, or none                           the i-th of a host's ranks has the i-th of the list, or of `gpus`
///     one GPU alone to be seen                by NCCL: it; launchers show each process its own
///
/// Throws `Error` where there are too few GPUs, and for peer memory between hosts.
[[nodiscard]] EngineOptions placed_on_gpus(EngineOptions options, const std::vector<std::int64_t>& hosts,
                                           const std::vector<DeviceChoice>& gpus);

}  // namespace baleen
