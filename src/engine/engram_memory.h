/// Where a rank's tables of n-grams lie, and what they take there, as its memory plan knows it.
#pragma once

#include <cstdint>
#include <optional>

#include "base/error.h"
#include "engine/memory_plan.h"
#include "model/rank_config.h"

namespace baleen {

/// Of a rank with such tables: reserves what steps read rows by and, where the options want the GPU's memory,
/// the tables; a place that is still to be chosen counts as disk, which takes most beside them.
void plan_engram(MemoryPlan& plan, const RankConfig& rank, const EngineOptions& options);

/// When all else is placed: takes the place that `options` ask for, or the nearest with room
/// (`choose_engram_place`). `free_device_bytes`: before anything of the plan is there; `free_host_bytes`: of
/// memory that may be pinned. A sentence where there is no room; the plan is then what it was.
[[nodiscard]] std::optional<Failure> place_engram(MemoryPlan& plan, const ModelConfig& config,
                                                  const EngineOptions& options,
                                                  std::int64_t free_device_bytes,
                                                  std::int64_t free_host_bytes);

}  // namespace baleen
