/// On which GPUs ranks are that are processes, and how they exchange messages.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/engine_options.h"

namespace baleen {

/// The options of processes on GPUs: a plan of as many ranks where there was none, a GPU for each rank, and
/// NCCL where they are on several hosts. `hosts`: of each rank (`hosts_of_ranks`). `gpus`: of this process.
///
///     as many GPUs named as there are ranks   rank i has the i-th
///     else                                    the i-th rank of a host has the i-th of them
///     no GPUs named                           of `gpus` likewise
///     one GPU alone, and NCCL                 it: launchers show each process its own
///
/// Throws `Error` where there are too few GPUs, and for peer memory between hosts.
[[nodiscard]] EngineOptions placed_on_gpus(EngineOptions options, const std::vector<std::int64_t>& hosts,
                                           const std::vector<DeviceChoice>& gpus);

}  // namespace baleen
