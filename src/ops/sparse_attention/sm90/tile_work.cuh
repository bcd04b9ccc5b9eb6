/// How attention on tiles is cut into work, and what its kernels leave for each other.
///
/// An item is a query and a group of 64 heads; its list has runs of 64 entries. With many items an item is
/// one task of one kernel. With few, so that a decode step of a few sequences fills the chip, an item's
/// runs are shared among `parts` tasks that leave weights alone, and a second kernel, a thread block for
/// each 64 dims, multiplies them with the values.
#pragma once

#include "ops/sparse_attention/sm90/attention_tile.cuh"

namespace baleen::sm90 {

/// Weights that wait for their values, in scratch memory: `slots` runs for each item.
struct WaitingWeights {
  uint4* weights;   ///< [items * slots][kRunSteps][thread]: operand registers
  float2* softmax;  ///< [items * slots][head]: maximum and sum of the run's

  [[nodiscard]] __device__ uint4* of_slot(int slot, int thread) const {
    return weights + static_cast<std::int64_t>(slot) * kRunSteps * kWarpgroupThreads + thread;
  }
  [[nodiscard]] __device__ float2* heads(int slot) const { return softmax + slot * kGroupHeads; }
};

struct RunRange {
  int begin = 0, end = 0;
};

struct WorkPlan {
  int groups;  ///< groups of heads
  int items;
  int parts;  ///< parts that an item has
  int slots;  ///< slots that an item with several parts has
  WaitingWeights waiting;
  bool in_pairs;  ///< an odd number of items is rounded up

  [[nodiscard]] __host__ __device__ int num_tasks() const {
    return items * parts + (in_pairs && items % 2 != 0 ? 1 : 0);
  }
  /// Whether an item's weights go to its slots. One that has more runs than slots is done by its first
  /// part.
  [[nodiscard]] __device__ bool shares(int num_runs) const { return parts > 1 && num_runs <= slots; }

  [[nodiscard]] __device__ RunRange range(int num_runs, int part) const {
    if (!shares(num_runs)) return part == 0 ? RunRange{0, num_runs} : RunRange{};
    const int each = (num_runs + parts - 1) / parts;
    const int begin = min(part * each, num_runs);
    return {begin, min(begin + each, num_runs)};
  }
};

/// The second kernel: weights that wait (of items that fit their slots) times values, to the output.
void gather_tiles(const AttentionLaunch& launch, const WorkPlan& plan, CudaContext& context);

}  // namespace baleen::sm90
