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
    if (tile == 0) return 0;  // one tile needs no division
    if (tile == num_tiles) return count;
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

/// Tiles of resident and of copied experts are counted in the halves of one word.
inline constexpr int kCopiedTilesShift = 16, kResidentTilesMask = (1 << kCopiedTilesShift) - 1;

/// Those of expert `expert`, which has `assignments`.
__device__ inline int counted_tiles(const PlanInput& input, int expert, int assignments) {
  if (assignments == 0 || input.is_computed(expert)) return 0;
  const int tiles = TileCuts(assignments, input.tile_tokens).num_tiles;
  return input.is_copied(expert) ? tiles << kCopiedTilesShift : tiles;
}

/// Of an expert with `own` counted tiles, behind `before` of smaller experts. Returns the place, in its list,
/// of the first one.
__device__ inline int write_tiles_of(const PlanInput& input, int expert, const ExpertPlan& plan, int own,
                                     int before, const TileLists& lists) {
  const bool copied = own >> kCopiedTilesShift != 0;
  const int place =
      copied ? before >> kCopiedTilesShift : input.num_shared_tiles() + (before & kResidentTilesMask);
  TokenTile* const list = copied ? lists.copied.tiles : lists.resident.tiles;
  if (own != 0 && list != nullptr)
    write_tiles(list + place, expert, plan.first_row, plan.assignments, input.tile_tokens);
  return place;
}

/// By one thread: the lengths of the lists, of `all` counted tiles, and the shared expert's tiles.
__device__ inline void write_shared_tiles(const PlanInput& input, int all, const TileLists& lists) {
  if (lists.copied.tiles != nullptr) *lists.copied.count = all >> kCopiedTilesShift;
  if (lists.resident.tiles == nullptr) return;
  *lists.resident.count = input.num_shared_tiles() + (all & kResidentTilesMask);
  if (input.num_shared > 0) {
    write_tiles(lists.resident.tiles, input.num_experts, input.first_shared_row, input.num_shared,
                input.tile_tokens);
  }
}

/// After a barrier that follows `plan_expert`. Returns the place, in its list, of the first tile of this
/// thread's expert.
__device__ inline int write_all_tiles(const PlanInput& input, const ExpertPlan& expert, int* warp_sums,
                                      const TileLists& lists) {
  const int thread = static_cast<int>(threadIdx.x);
  const int own = thread < input.num_experts ? counted_tiles(input, thread, expert.assignments) : 0;
  const int before = block_exclusive_sum(own, warp_sums);
  const int all = block_sum(warp_sums);
  const int place = write_tiles_of(input, thread, expert, own, before, lists);
  if (thread == kPlanThreads - 1) write_shared_tiles(input, all, lists);
  return place;
}

/// Up to so many slots need no count for each expert: a thread of a slot looks at all others.
inline constexpr int kMaxFewSlots = 64;

/// The plan of few slots, in shared memory. Of each slot:
struct FewSlots {
  std::int32_t expert[kMaxFewSlots];  ///< -1: none of this rank
  std::int32_t rows[kMaxFewSlots];    ///< that it adds before those of larger experts
  std::int32_t tiles[kMaxFewSlots];   ///< and counted tiles
  std::int32_t row[kMaxFewSlots];     ///< -1: none
};

/// By all threads of a block, of which there are more than slots. `expert`: of this thread's slot, or -1.
/// Ends with a barrier. `writes`: tiles, to `lists`.
__device__ inline void plan_few_slots(const PlanInput& input, int expert, FewSlots& slots, bool writes,
                                      const TileLists& lists) {
  const int thread = static_cast<int>(threadIdx.x), num_slots = input.num_tokens * input.num_selected;
  if (thread < num_slots) slots.expert[thread] = expert;
  __syncthreads();
  int earlier = 0, assignments = 0, own_tiles = 0;
  if (thread < num_slots) {
    for (int slot = 0; slot < num_slots; ++slot) {
      const int same = slots.expert[slot] == expert ? 1 : 0;
      assignments += same;
      earlier += slot < thread ? same : 0;
    }
    if (expert >= 0 && earlier == 0) own_tiles = counted_tiles(input, expert, assignments);
    slots.rows[thread] = expert >= 0 && earlier % kRowAlignment == 0 ? kRowAlignment : 0;
    slots.tiles[thread] = own_tiles;
  }
  __syncthreads();
  // The thread behind the last slot's is behind all experts.
  if (thread <= num_slots) {
    const int end = thread < num_slots ? expert : input.num_experts;
    int rows = 0, tiles = 0;
    for (int slot = 0; slot < num_slots; ++slot) {
      if (slots.expert[slot] >= end) continue;
      rows += slots.rows[slot];
      tiles += slots.tiles[slot];
    }
    if (thread < num_slots) slots.row[thread] = expert >= 0 ? rows + earlier : -1;
    if (writes) {
      if (own_tiles != 0)
        (void)write_tiles_of(input, expert, {.assignments = assignments, .first_row = rows}, own_tiles, tiles,
                             lists);
      if (thread == num_slots) write_shared_tiles(input, tiles, lists);
    }
  }
  __syncthreads();
}

}  // namespace baleen::BALEEN_ARCH
