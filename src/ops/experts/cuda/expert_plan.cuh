/// Counting assignments and cutting tiles, by all threads of a block: for the plan in device memory, and for
/// blocks that plan for themselves rather than wait for it.
#pragma once

#include <cstdint>

#include "cuda/warp_reduce.cuh"
#include "ops/experts/cuda/expert_dispatch.h"

namespace baleen::BALEEN_ARCH {

/// Threads of a block that plans; at least the number of experts: one counts for one expert.
inline constexpr int kPlanThreads = 512;

/// Sum of `value` over the threads before this one. `warp_sums`: a value of shared memory for each warp, free
/// again after the next barrier of the block.
__device__ inline int block_exclusive_sum(int value, int* warp_sums) {
  const int warp = threadIdx.x / kWarpLanes, lane = threadIdx.x % kWarpLanes;
  const int inclusive = warp_inclusive_sum(value);
  if (lane == kWarpLanes - 1) warp_sums[warp] = inclusive;
  __syncthreads();
  int before = inclusive - value;
  for (int i = 0; i < warp; ++i) before += warp_sums[i];
  return before;
}

/// Sum of `value` over all threads: after `block_exclusive_sum` of it and before the next barrier.
__device__ inline int block_sum(const int* warp_sums) {
  int sum = 0;
  for (int i = 0; i < kPlanThreads / kWarpLanes; ++i) sum += warp_sums[i];
  return sum;
}

/// `count(slot, expert)` for this thread's share of the slots whose experts are of this rank; loads go ahead
/// of it. They pass the first-level cache by: blocks that plan for themselves read ids before they wait.
template <class Count>
__device__ void for_each_assignment(const PlanInput& input, Count count) {
  constexpr int kLoads = 8;
  const int num_slots = input.num_tokens * input.num_selected;
  for (int first = static_cast<int>(threadIdx.x); first < num_slots; first += kLoads * kPlanThreads) {
    int ids[kLoads];
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const int slot = first + i * kPlanThreads;
      ids[i] = slot < num_slots ? input.local_expert(__ldcg(input.ids + slot)) : -1;
    }
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      if (ids[i] >= 0) count(first + i * kPlanThreads, ids[i]);
    }
  }
}

/// The part of a plan that the thread of one expert knows.
struct ExpertPlan {
  int assignments;
  int first_row;
};

/// `assignments`: [num_experts] of shared memory: every expert's, once the block's threads have met. Ends
/// without a barrier.
__device__ inline ExpertPlan plan_expert(const PlanInput& input, const int* assignments, int* warp_sums) {
  __syncthreads();
  const int count = static_cast<int>(threadIdx.x) < input.num_experts ? assignments[threadIdx.x] : 0;
  return {count, block_exclusive_sum((count + kRowAlignment - 1) / kRowAlignment * kRowAlignment, warp_sums)};
}

/// How `count` rows are cut into tiles of nearly the same size.
struct TileCuts {
  int count;
  int num_tiles;

  __device__ TileCuts(int num_rows, int tile_tokens)
      : count(num_rows), num_tiles((num_rows + tile_tokens - 1) / tile_tokens) {}
  __device__ int begin(int tile) const {
    const std::int64_t units = (count + kRowAlignment - 1) / kRowAlignment;
    return min(count, kRowAlignment * static_cast<int>(units * tile / num_tiles));
  }
  /// That of row `row`.
  __device__ int tile_of(int row) const {
    int tile = 0;
    while (tile + 1 < num_tiles && begin(tile + 1) <= row) ++tile;
    return tile;
  }
};

/// `count` rows from `first_row` on.
__device__ inline void write_tiles(TokenTile* to, int expert, int first_row, int count, int tile_tokens) {
  const TileCuts cuts(count, tile_tokens);
  for (int i = 0; i < cuts.num_tiles; ++i)
    to[i] = {expert, first_row + cuts.begin(i), cuts.begin(i + 1) - cuts.begin(i), 0};
}

/// After a barrier that follows `plan_expert`. Returns the place, in its list, of the first tile of this
/// thread's expert.
__device__ inline int write_all_tiles(const PlanInput& input, const ExpertPlan& expert, int* warp_sums,
                                      const TileLists& lists) {
  const int shared_tiles = input.num_shared_tiles();
  const int thread = static_cast<int>(threadIdx.x);
  const bool computed = thread < input.num_experts && input.is_computed(thread);
  const int assignments = computed ? 0 : expert.assignments;
  const int own_tiles = (assignments + input.tile_tokens - 1) / input.tile_tokens;
  // Tiles of resident and of copied experts, counted in the halves of one word.
  constexpr int kHalf = 16, kLowHalf = (1 << kHalf) - 1;
  const bool copied = own_tiles > 0 && input.is_copied(thread);
  const int before = block_exclusive_sum(copied ? own_tiles << kHalf : own_tiles, warp_sums);
  const int sums = block_sum(warp_sums);
  const int place = copied ? before >> kHalf : shared_tiles + (before & kLowHalf);  // in the list
  TokenTile* const list = copied ? lists.copied.tiles : lists.resident.tiles;
  if (thread < input.num_experts && list != nullptr) {
    write_tiles(list + place, thread, expert.first_row, assignments, input.tile_tokens);
  }
  if (thread == kPlanThreads - 1) {
    if (lists.copied.tiles != nullptr) *lists.copied.count = sums >> kHalf;
    if (lists.resident.tiles != nullptr) *lists.resident.count = shared_tiles + (sums & kLowHalf);
    if (input.num_shared > 0 && lists.resident.tiles != nullptr) {
      write_tiles(lists.resident.tiles, input.num_experts, input.first_shared_row, input.num_shared,
                  input.tile_tokens);
    }
  }
  return place;
}

}  // namespace baleen::BALEEN_ARCH
