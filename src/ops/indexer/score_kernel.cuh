/// Scores and their streamed top-k.
///
/// A block holds kQueries queries in shared memory and streams keys past them, kTileKeys a warpgroup at a time: widened in
/// registers, multiplied by all heads on the tensor core, relu, weighted, summed over heads: a score. What beats the
/// query's threshold is appended to its candidates in shared memory; when they run full, the best top_k or little more
/// stay and the threshold rises. No score is ever stored, and a key costs a comparison once the threshold stands.
///
/// A score depends on its key and its query alone: one product, one order of the heads. So neither the cut of the keys into
/// splits nor the number of queries of a block shows in the selection.
#pragma once

#include <cstdint>

#include "cuda/device_batch.h"
#include "cuda/ptx/grid_dependency.h"
#include "cuda/ptx/saturate.h"
#include "cuda/ptx/wgmma.h"
#include "cuda/ptx/wgmma_e4m3.h"
#include "ops/indexer/candidates.cuh"
#include "ops/indexer/key_tile.cuh"
#include "ops/indexer/query_tile.cuh"

namespace baleen::index_kernels {

inline constexpr int kWarpgroup = 128;
/// Rounds (a tile a warpgroup) between looks at whether candidates have run full; so much room they need.
inline constexpr int kRoundsPerCheck = 4;

/// The best of each split of a row's keys, for the kernel that merges them.
struct SplitLists {
  Candidate* candidates;  ///< [rows][splits][top_k]
  std::int32_t* counts;   ///< [rows][splits]
};

struct ScoreArgs {
  QueryInputs inputs;
  KeyPages pool;
  DeviceBatch batch;
  std::int32_t* selected;  ///< row r at selected + r * selected_stride
  std::int64_t selected_stride;
  SplitLists lists;  ///< unused with one split
  int top_k;
  int capacity;  ///< candidates of a query
};

/// Compressed entries that a query at `position` sees; none for a row of padding.
__device__ inline int num_visible(std::int32_t position) { return (position + 1) / 4; }

/// Shared memory of a block; what needs an alignment comes first, the candidates [kQueries][capacity] after it.
template <int kQueries>
struct ScoreSpace {
  alignas(1024) std::byte queries[kQueries][kQueryBytes];  ///< in the end the bitmap of the selection
  alignas(16) float weights[kQueries][kHeads];
  std::uint64_t magnitudes[kNumMagnitudes];
  SelectionSpace selection;
  int counts[kQueries];
  float thresholds[kQueries];      ///< NaN until candidates were dropped
  std::int32_t visible[kQueries];  ///< of queries that need scores, else 0
  std::int32_t sequences[kQueries];
  alignas(16) Candidate candidates[];
};

/// A lane's scores of a tile: after `sum_heads` it holds whole sums of its two keys for one query.
template <int kQueries>
__device__ inline int query_of_lane() {
  static_assert(kQueries == 1 || kQueries == 4);
  const int lane = static_cast<int>(threadIdx.x);
  return kQueries == 1 ? 0 : lane % 2 * 2 + lane / 2 % 2;
}

/// Sums over heads: in the lane in ascending order, then over the quad as (0 + 1) + (2 + 3).
template <int kQueries>
__device__ inline void sum_heads(const float (&products)[kQueries * 32], const float (&weights)[kQueries][16],
                                 float (&scores)[kRowsPerLane]) {
  float sums[kQueries][kRowsPerLane];
#pragma unroll
  for (int query = 0; query < kQueries; ++query) {
#pragma unroll
    for (int i = 0; i < kRowsPerLane; ++i) {
      float sum = 0.0F;
#pragma unroll
      for (int head = 0; head < 16; ++head) {
        const float product = products[query * 32 + head / 2 * 4 + i * 2 + head % 2];
        sum = fmaf(weights[query][head], ptx::multiply_saturated(product, power_of_two(-kSumBits)), sum);
      }
      sums[query][i] = sum;
    }
  }
  if constexpr (kQueries == 1) {
#pragma unroll
    for (int i = 0; i < kRowsPerLane; ++i) {
      const float pair = sums[0][i] + __shfl_xor_sync(kAllLanes, sums[0][i], 1);
      scores[i] = pair + __shfl_xor_sync(kAllLanes, pair, 2);
    }
  } else {
    // Instead of all sums everywhere, each exchange halves the queries that a lane is left with.
    const bool odd = (threadIdx.x & 1) != 0, upper = (threadIdx.x & 2) != 0;
#pragma unroll
    for (int i = 0; i < kRowsPerLane; ++i) {
      float pairs[2];
#pragma unroll
      for (int j = 0; j < 2; ++j) {
        const float given = odd ? sums[j][i] : sums[2 + j][i];
        pairs[j] = (odd ? sums[2 + j][i] : sums[j][i]) + __shfl_xor_sync(kAllLanes, given, 1);
      }
      const float given = upper ? pairs[0] : pairs[1];
      scores[i] = (upper ? pairs[1] : pairs[0]) + __shfl_xor_sync(kAllLanes, given, 2);
    }
  }
}

/// Products of a tile of keys with all heads of kQueries queries.
template <int kQueries>
__device__ inline void multiply(const std::uint32_t (&a)[kSteps][4], std::uint64_t queries,
                                float (&products)[kQueries * 32]) {
  constexpr int kColumns = kQueries * kHeads;
  constexpr std::uint64_t kStepUnits = kDim / kSteps / 16;  // of a descriptor's address
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
    ptx::wgmma_fence();  // each: a step's keys may still be widened while the steps before it run
    ptx::wgmma_e4m3<kColumns>(products, a[step], queries + step * kStepUnits, step > 0);
  }
  ptx::wgmma_commit();
  ptx::wgmma_wait<0>();
#pragma unroll
  for (float& product : products) ptx::wgmma_hold(product);
}

/// By a warp: appends a lane's candidates that are `wanted` to those of its query; whether they ran beyond `limit`.
template <int kQueries>
__device__ inline bool append(const bool (&wanted)[kRowsPerLane], const float (&scores)[kRowsPerLane],
                              const std::int32_t (&keys)[kRowsPerLane], int limit, Candidate* candidates,
                              int* count) {
  unsigned wanting[kRowsPerLane];
#pragma unroll
  for (int i = 0; i < kRowsPerLane; ++i) wanting[i] = __ballot_sync(kAllLanes, wanted[i]);
  if ((wanting[0] | wanting[1]) == 0) return false;
  // Of the lanes that share the query, the first makes room for all.
  constexpr unsigned kSharing = kQueries == 1 ? kAllLanes : 0x11111111u;
  const int lane = static_cast<int>(threadIdx.x) % kWarp, leader = kQueries == 1 ? 0 : lane % kBlocks;
  const unsigned sharing = kSharing << leader, before = (1u << lane) - 1;
  const unsigned first = wanting[0] & sharing, second = wanting[1] & sharing;
  int begin = 0;
  if (lane == leader && (first | second) != 0) begin = atomicAdd(count, __popc(first) + __popc(second));
  begin = __shfl_sync(kAllLanes, begin, leader);
  if (wanted[0]) candidates[begin + __popc(first & before)] = candidate(scores[0], keys[0]);
  if (wanted[1]) candidates[begin + __popc(first) + __popc(second & before)] = candidate(scores[1], keys[1]);
  return begin + __popc(first) + __popc(second) > limit;
}

/// By the whole block: where candidates of queries [first, last) have run beyond `limit`, keeps the best top_k or a little
/// more. Begins and ends with a barrier.
template <int kQueries, int kThreads>
__device__ void make_room(const ScoreArgs& args, int first, int last, int limit,
                          ScoreSpace<kQueries>& space) {
  bool full[kQueries];
#pragma unroll
  for (int query = 0; query < kQueries; ++query) {
    full[query] = query >= first && query < last && space.counts[query] > limit;
  }
  __syncthreads();
#pragma unroll
  for (int query = 0; query < kQueries; ++query) {
    if (!full[query]) continue;
    Candidate* candidates = space.candidates + query * args.capacity;
    const int count = space.counts[query];
    const int most = args.top_k + (limit - args.top_k) / 4;
    const Candidate bound = bound_of_best<kThreads>(candidates, count, args.top_k, most, space.selection);
    const int kept = drop_below<kThreads>(bound, candidates, count, space.selection);
    if (threadIdx.x == 0) {
      space.counts[query] = kept;
      space.thresholds[query] = score_of(bound);
    }
    __syncthreads();
  }
}

/// By the whole block: this split's part of the keys of queries [first, last), which are of one sequence.
template <int kQueries, int kWarpgroups>
__device__ void score_sequence(const ScoreArgs& args, int first, int last,
                               const float (&weights)[kQueries][16], ScoreSpace<kQueries>& space) {
  constexpr int kRoundKeys = kWarpgroups * kTileKeys;
  const int thread = static_cast<int>(threadIdx.x);
  const int block = thread % kBlocks;
  const PageId* pages = args.batch.sequences[space.sequences[first]].pages;
  int num_keys = 0;
  for (int query = first; query < last; ++query) num_keys = max(num_keys, space.visible[query]);
  const std::int64_t num_rounds = (num_keys + kRoundKeys - 1) / kRoundKeys;
  const auto begin = static_cast<int>(num_rounds * blockIdx.y / gridDim.y);
  const auto end = static_cast<int>(num_rounds * (blockIdx.y + 1) / gridDim.y);
  if (begin == end) return;

  const int query = query_of_lane<kQueries>();
  // With one query all lanes of a quad have the same scores: lane 0 offers its first key, lane 1 its second.
  const auto offers = [&](int i) { return kQueries > 1 || block == i; };
  const int visible = query >= first && query < last ? space.visible[query] : 0;
  const int limit = args.capacity - kRoundsPerCheck * kRoundKeys;
  Candidate* candidates = space.candidates + query * args.capacity;
  float threshold = space.thresholds[query];
  const std::uint64_t operand = ptx::wgmma_descriptor(space.queries, ptx::SmemSwizzle::k128B, 8 * kDim);

  const int lane_key =
      thread / kWarpgroup * kTileKeys + thread % kWarpgroup / kWarp * 16 + thread % kWarp / 4;
  const auto key_of = [&](int round, int i) { return round * kRoundKeys + lane_key + 8 * i; };
  PageId page_ids[kRowsPerLane];
  const auto find_pages = [&](int round) {
#pragma unroll
    for (int i = 0; i < kRowsPerLane; ++i)
      page_ids[i] = pages[min(key_of(round, i), num_keys - 1) >> args.pool.log2_rows];
  };
  const auto load = [&](int round) {
    const std::int32_t keys[kRowsPerLane] = {min(key_of(round, 0), num_keys - 1),
                                             min(key_of(round, 1), num_keys - 1)};
    return load_rows(args.pool, page_ids, keys, block);
  };
  // Keys are loaded a round ahead, their pages' numbers two.
  find_pages(begin);
  PackedRows rows = load(begin);
  find_pages(begin + 1);
  bool full = false;
  for (int round = begin; round < end; ++round) {
    std::uint32_t a[kSteps][4];
    float factors[kRowsPerLane], products[kQueries * 32], scores[kRowsPerLane];
    widen_rows(rows, block, space.magnitudes, a, factors);
    rows = load(round + 1);
    find_pages(round + 2);
    multiply<kQueries>(a, operand, products);
    sum_heads<kQueries>(products, weights, scores);
    std::int32_t keys[kRowsPerLane];
    bool wanted[kRowsPerLane];
#pragma unroll
    for (int i = 0; i < kRowsPerLane; ++i) {
      keys[i] = key_of(round, i);
      scores[i] = lowest_if_nan(scores[i] * factors[i]);
      wanted[i] = offers(i) && keys[i] < visible && !(scores[i] <= threshold);
    }
    full |= append<kQueries>(wanted, scores, keys, limit, candidates, &space.counts[query]);
    if ((round - begin) % kRoundsPerCheck == kRoundsPerCheck - 1 && __syncthreads_or(full) != 0) {
      make_room<kQueries, kWarpgroups * kWarpgroup>(args, first, last, limit, space);
      threshold = space.thresholds[query];
      full = false;
    }
  }
  __syncthreads();
}

/// By the whole block: the best top_k of query `query` of the block to `selected`, or to the split's list.
template <int kQueries, int kThreads>
__device__ void finish_query(const ScoreArgs& args, int query, std::int64_t row,
                             ScoreSpace<kQueries>& space) {
  Candidate* candidates = space.candidates + query * args.capacity;
  int count = space.counts[query];
  const Candidate bound =
      count > args.top_k ? bound_of_best<kThreads>(candidates, count, args.top_k, args.top_k, space.selection)
                         : 0;
  if (gridDim.y == 1) {
    write_ascending<kThreads>(bound, candidates, count, space.visible[query],
                              reinterpret_cast<std::uint32_t*>(space.queries), sizeof(space.queries) / 4,
                              args.selected + row * args.selected_stride, args.top_k, space.selection);
    return;
  }
  if (bound != 0) count = drop_below<kThreads>(bound, candidates, count, space.selection);
  const std::int64_t list = row * gridDim.y + blockIdx.y;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += kThreads) {
    args.lists.candidates[list * args.top_k + i] = candidates[i];
  }
  if (threadIdx.x == 0) args.lists.counts[list] = count;
  __syncthreads();
}

/// Grid: (blocks of kQueries rows, splits of their keys).
template <int kQueries, int kWarpgroups>
__global__ __launch_bounds__(kWarpgroups* kWarpgroup,
                             kWarpgroups == 1 ? 2
                                              : 1) void score_kernel(const __grid_constant__ ScoreArgs args) {
  constexpr int kThreads = kWarpgroups * kWarpgroup;
  extern __shared__ __align__(1024) std::byte shared[];
  auto& space = *reinterpret_cast<ScoreSpace<kQueries>*>(shared);
  const int thread = static_cast<int>(threadIdx.x);
  const std::int64_t first_row = static_cast<std::int64_t>(blockIdx.x) * kQueries;
  if (thread < kNumMagnitudes) space.magnitudes[thread] = kMagnitudes[thread];
  ptx::wait_for_previous_kernel();
  ptx::launch_next_kernel();

  bool any = false;
#pragma unroll
  for (int query = 0; query < kQueries; ++query) {
    const std::int64_t row = first_row + query;
    const bool exists = row < args.batch.num_rows;
    const int visible = exists ? num_visible(args.batch.positions[row]) : 0;
    const bool scored = visible > args.top_k;
    if (thread == 0) {
      space.counts[query] = 0;
      space.thresholds[query] = __uint_as_float(0x7FC00000u);
      space.visible[query] = scored ? visible : 0;
      space.sequences[query] = exists ? args.batch.sequence_of[row] : -1;
    }
    if (exists && !scored && blockIdx.y == 0) {
      write_all<kThreads>(visible, args.selected + row * args.selected_stride, args.top_k);
    }
    any |= scored;
  }
  if (!any) return;
#pragma unroll
  for (int query = 0; query < kQueries; ++query) {
    // Beyond the last row stands that row once more; nothing becomes of its scores.
    const std::int64_t row = min(first_row + query, static_cast<std::int64_t>(args.batch.num_rows) - 1);
    prepare_query<kThreads>(args.inputs, row, space.queries[query], space.weights[query]);
  }
  ptx::fence_proxy_async();
  __syncthreads();

  float weights[kQueries][16];
#pragma unroll
  for (int query = 0; query < kQueries; ++query) {
#pragma unroll
    for (int i = 0; i < 16; ++i) weights[query][i] = space.weights[query][thread % kBlocks * 16 + i];
  }
  for (int first = 0, last = 0; first < kQueries; first = last) {
    while (last < kQueries && space.sequences[last] == space.sequences[first]) ++last;
    score_sequence<kQueries, kWarpgroups>(args, first, last, weights, space);
  }
  for (int query = 0; query < kQueries; ++query) {
    if (space.visible[query] > 0) finish_query<kQueries, kThreads>(args, query, first_row + query, space);
  }
}

}  // namespace baleen::index_kernels
