/// What the two kernels on tiles share (ops/sparse_attention/cuda/item_parts.cuh). A tile of a list is a run
/// of 64 entries, a part of an item a task.
#pragma once

#include "ops/sparse_attention/cuda/item_parts.cuh"
#include "ops/sparse_attention/sm90/attention_tile.cuh"

namespace baleen::sm90 {

/// A slot has [kRunSteps][thread].
struct WaitingRuns : WaitingWeights<kRunSteps * kWarpgroupThreads> {
  [[nodiscard]] __device__ uint4* of_slot(int slot, int thread) const {
    return weights + static_cast<std::int64_t>(slot) * kRunSteps * kWarpgroupThreads + thread;
  }
  [[nodiscard]] __device__ float2* heads(int slot) const { return softmax + slot * kGroupHeads; }
};

struct WorkPlan : ItemParts {
  WaitingRuns waiting;
  bool in_pairs;  ///< an odd number of items is rounded up

  [[nodiscard]] __host__ __device__ int num_tasks() const {
    return items * parts + (in_pairs && items % 2 != 0 ? 1 : 0);
  }
};

/// The second kernel: weights that wait (of items that fit their slots) times values, to the output.
void gather_tiles(const AttentionLaunch& launch, const WorkPlan& plan, CudaContext& context);

}  // namespace baleen::sm90
