/// Which routed experts a rank's GPU has no room for, as its memory plan knows it.
#pragma once

#include <cstdint>
#include <optional>

#include "base/error.h"
#include "engine/memory_plan.h"
#include "model/device_weights.h"
#include "model/parallel_plan.h"
#include "model/rank_config.h"
#include "model/tensor_table.h"
#include "model/weight_tree.h"
#include "moe/residence/expert_placement.h"

namespace baleen {

/// One rank's routed experts, those of its layers, and what its other weights take. Experts of a draft head
/// that is run stay on the device: a step reads more of them, for each byte that they take
/// (docs/experts_on_the_host.md).
struct MovableExperts {
  ExpertCounts counts;            ///< what the layers have; none away
  std::int64_t block_bytes = 0;   ///< size of one expert
  BlockRange staying;             ///< blocks whose experts are among the other weights
  std::int64_t bytes_beside = 0;  ///< what all other weights take, on the device
  bool in_place = false;          ///< BF16: read where they lie
  std::int64_t num_sharing = 1;   ///< ranks, which share what they may take of the host's memory
};

/// Of one rank that has the whole model.
[[nodiscard]] MovableExperts movable_experts(const ModelConfig& config, const StorageFormats& formats,
                                             const EngineOptions& options);
/// Of one rank of `plan`; `tree`: its weights, whose addresses do not matter.
[[nodiscard]] MovableExperts movable_experts(const RankConfig& rank, const WeightTree& tree,
                                             const ParallelPlan& plan, const EngineOptions& options);

/// If `plan`, which has all weights on the device, takes more than `free_bytes` there, or its weights more
/// than the options allow: leaves routed experts of layers to the host's memory until the rest fits, and
/// those of a draft head out when it is not run. A sentence when even that is too much, the host's memory too
/// little, or experts are to change ranks meanwhile or steps to be cut in two; the plan is then what it was.
[[nodiscard]] std::optional<Failure> leave_experts_to_host(MemoryPlan& plan, const MovableExperts& experts,
                                                           const EngineOptions& options,
                                                           std::int64_t free_bytes);

}  // namespace baleen
