/// Scores and their streamed top-k.
///
/// A block holds kQueries queries in shared memory and streams keys past them, kTileKeys a warpgroup at a
/// time: dequantised in registers, multiplied by all heads on the tensor core, relu, weighted, summed over
/// heads: a score. What beats the query's threshold is appended to its candidates in shared memory; when they
/// run full, the best top_k or little more stay and the threshold rises. No score is ever stored, and a key
/// costs a comparison once the threshold stands.
///
/// A score depends on its key and its query alone: one product, one order of the heads. So neither the cut of
/// the keys into splits nor the number of queries of a block shows in the selection.
#pragma once

#include <cstdint>

#include "cuda/device_batch.h"
#include "cuda/ptx/grid_dependency.h"
#include "cuda/ptx/wgmma.h"
#include "ops/indexer/sm90/candidates.cuh"
#include "ops/indexer/sm90/key_tile.cuh"
#include "ops/indexer/sm90/query_tile.cuh"
#include "ops/indexer/sm90/score_tile.cuh"

namespace baleen::sm90::index_kernels {

inline constexpr int kWarpgroup = 128;
/// Fewest keys of a split, if there are so many: with fewer, merging takes longer than scoring.
inline constexpr int kMinSplitKeys = 1024;
/// So many keys of one query are not split at all: scoring a second half takes less time than a merge.
inline constexpr int kMaxWholeKeys = 2048;
/// Rounds (a tile a warpgroup) between looks at whether candidates have run full.
inline constexpr int kRoundsPerCheck = 2;
/// Whose candidates there must be room for at a check: those until the next one, and the round that is then
/// under way.
inline constexpr int kRoundsOfRoom = kRoundsPerCheck + 1;
/// Queries that a warpgroup multiplies a tile with at a time. Four would be the most an instruction takes;
/// two leave room for the registers of a third warpgroup, which hides more of the others' latencies.
inline constexpr int kMaxQueriesAtOnce = 2;

/// The best of each split of a row's keys, for the kernel that merges them.
struct SplitLists {
  Candidate* candidates;  ///< [rows][splits][top_k]
  std::int32_t* counts;   ///< [rows][splits]; the first is kDone where the first split has had all keys
};
inline constexpr std::int32_t kDone = -1;

struct ScoreArgs {
  QueryInputs inputs;
  KeyPages pool;
  DeviceBatch batch;
  std::int32_t* selected;  ///< row r at selected + r * selected_stride
  std::int64_t selected_stride;
  SplitLists lists;  ///< unused with one split
  int top_k;
  int capacity;              ///< candidates of a query
  bool queries_are_settled;  ///< they are there before the kernel's wait
};

/// Compressed entries that a query at `position` sees; none for a row of padding.
__device__ inline int num_visible(std::int32_t position) { return (position + 1) / 4; }

/// Shared memory of a block; what needs an alignment comes first, the candidates [kQueries][capacity] after
/// it.
template <int kQueries>
struct ScoreSpace {
  alignas(1024) std::byte queries[kQueries][kQueryBytes];  ///< in the end the bitmap of the selection
  alignas(16) float weights[kQueries][kHeads];             ///< as prepare_query orders them
  std::uint64_t magnitudes[kNumMagnitudes];
  std::uint32_t zero;
  SelectionSpace selection;
  int counts[kQueries];
  float thresholds[kQueries];      ///< NaN until candidates were dropped
  std::int32_t visible[kQueries];  ///< of queries that need scores, else 0
  std::int32_t sequences[kQueries];
  bool alone[kQueries];  ///< this split has all keys of the query
  alignas(16) Candidate candidates[];
};

/// By the whole block: where candidates of queries [first, last) have run beyond `limit`, keeps the best
/// top_k or a little more. Begins and ends with a barrier.
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

/// A split's part of the keys of some queries of one sequence.
struct SplitRounds {
  int num_keys;  ///< that the queries see, in all splits
  int begin, end;
  bool alone;  ///< the first split has all of them
};

template <int kQueries, int kRoundKeys>
__device__ inline SplitRounds split_rounds(int num_keys) {
  const int splits = static_cast<int>(gridDim.y), split = static_cast<int>(blockIdx.y);
  const int all = (num_keys + kRoundKeys - 1) / kRoundKeys;
  const int least = kQueries == 1 && num_keys <= kMaxWholeKeys ? all : kMinSplitKeys / kRoundKeys;
  const int each = max(least, (all + splits - 1) / splits);
  const int begin = min(all, each * split);
  return {num_keys, begin, min(all, begin + each), all <= each};
}

/// The next run of queries of one sequence that begins at `first`: its end, and what they see together.
template <int kQueries>
__device__ inline int end_of_run(int first, const ScoreSpace<kQueries>& space, int& num_keys) {
  num_keys = 0;
  int last = first;
  for (; last < kQueries && space.sequences[last] == space.sequences[first]; ++last)
    num_keys = max(num_keys, space.visible[last]);
  return last;
}

/// By the whole block: the queries as operand of the products.
template <int kQueries, int kThreads>
__device__ void prepare_queries(const ScoreArgs& args, std::int64_t first_row, ScoreSpace<kQueries>& space) {
  for (int query = 0; query < kQueries; ++query) {
    // Beyond the last row stands that row once more; nothing becomes of its scores.
    const std::int64_t row = min(first_row + query, static_cast<std::int64_t>(args.batch.num_rows) - 1);
    prepare_query<kThreads>(args.inputs, row, space.queries[query], space.weights[query]);
  }
  ptx::fence_proxy_async();
  __syncthreads();
}

/// By the whole block: the keys of `rounds` for queries [first, last), which are of one sequence. Begins
/// after a barrier and ends with one.
template <int kQueries, int kWarpgroups, bool kPageIsTile>
__device__ void score_run(const ScoreArgs& args, int first, int last, const SplitRounds& rounds,
                          ScoreSpace<kQueries>& space) {
  constexpr int kThreads = kWarpgroups * kWarpgroup, kRoundKeys = kWarpgroups * kTileKeys;
  constexpr int kGroupQueries = kQueries < kMaxQueriesAtOnce ? kQueries : kMaxQueriesAtOnce,
                kGroups = kQueries / kGroupQueries;
  const int thread = static_cast<int>(threadIdx.x);
  const int block = thread % kBlocks;
  const int warpgroup = thread / kWarpgroup, lane_key = thread % kWarpgroup / kWarp * 16 + thread % kWarp / 4;
  const auto tile_of = [&](int round) { return round * kWarpgroups + warpgroup; };
  KeyStream<kPageIsTile> stream(args.pool, args.batch.sequences[space.sequences[first]].pages, lane_key,
                                block, rounds.num_keys);
  PackedRow rows[kRowsPerLane];
  stream.find(tile_of(rounds.begin));
#pragma unroll
  for (int i = 0; i < kRowsPerLane; ++i) rows[i] = stream.load(tile_of(rounds.begin), i);
  stream.find(tile_of(rounds.begin + 1));

  using Place = QuadPlace<kGroupQueries>;
  const Place place = Place::of_lane();
  const int limit = args.capacity - kRoundsOfRoom * kRoundKeys;
  std::int32_t visible[kGroups];
  float thresholds[kGroups];
#pragma unroll
  for (int group = 0; group < kGroups; ++group) {
    const int query = group * kGroupQueries + place.query;
    visible[group] = query >= first && query < last ? space.visible[query] : 0;
    thresholds[group] = space.thresholds[query];
  }
  bool full = false;
  // Appends what may be among the best of a group that was multiplied before.
  const auto offer = [&](int round, int group, const float(&scores)[Place::kWholeSums],
                         const float(&factors)[kRowsPerLane]) {
    const int query = group * kGroupQueries + place.query;
#pragma unroll
    for (int i = 0; i < Place::kWholeSums; ++i) {
      const int row = place.first_key + i, key = tile_of(round) * kTileKeys + lane_key + 8 * row;
      const float score = lowest_if_nan(scores[i] * (row == 0 ? factors[0] : factors[1]));
      if (!place.own || round < rounds.begin || key >= visible[group] || score <= thresholds[group]) continue;
      const int at = atomicAdd(&space.counts[query], 1);
      space.candidates[query * args.capacity + at] = candidate(score, key);
      full |= at >= limit;
    }
  };

  // While a group is multiplied, the next round's keys are dequantised and those after it loaded, and the
  // sums of the group before are compared. Beyond the end the last key stands in.
  //
  // The tensor core reads `a` while `next_a` is made, so they must not share registers: the addition of a
  // zero of which the assembler does not know keeps it from joining them, upon which it would let the
  // products finish first.
  const std::uint32_t zero = space.zero;
  std::uint32_t a[kSteps][4];
  float factors[kRowsPerLane], last_factors[kRowsPerLane] = {}, next_factors[kRowsPerLane];
  LaneSums<kGroupQueries> sums = {};
  float scores[Place::kWholeSums];
#pragma unroll
  for (int i = 0; i < kRowsPerLane; ++i) {
    factors[i] = dequantise_row(rows[i], i, block, space.magnitudes, a);
    rows[i] = stream.load(tile_of(rounds.begin + 1), i);
  }
  stream.find(tile_of(rounds.begin + 2));
  int until_check = kRoundsPerCheck + 1;
  for (int round = rounds.begin; round < rounds.end; ++round) {
    if (--until_check == 0) {
      until_check = kRoundsPerCheck;
      if (__syncthreads_or(full) != 0) {
        make_room<kQueries, kThreads>(args, first, last, limit, space);
#pragma unroll
        for (int group = 0; group < kGroups; ++group)
          thresholds[group] = space.thresholds[group * kGroupQueries + place.query];
        full = false;
      }
    }
    std::uint32_t next_a[kSteps][4];
#pragma unroll
    for (int group = 0; group < kGroups; ++group) {
      Products<kGroupQueries> products;
      begin_products<kGroupQueries>(
          a, ptx::wgmma_descriptor(space.queries[group * kGroupQueries], ptx::SmemSwizzle::k128B, 8 * kDim),
          products);
      sum_quad<kGroupQueries>(sums, scores);
#pragma unroll
      for (int i = 0; i < kRowsPerLane; ++i) {
        if (i * kGroups / kRowsPerLane != group) continue;
        next_factors[i] = dequantise_row(rows[i], i, block, space.magnitudes, next_a);
        rows[i] = stream.load(tile_of(round + 2), i);
#pragma unroll
        for (int step = 0; step < kSteps; ++step) {
          ptx::wgmma_hold(next_a[step][i]);
          ptx::wgmma_hold(next_a[step][2 + i]);
        }
      }
      if (group > 0) {
        offer(round, group - 1, scores, factors);
      } else {
        offer(round - 1, kGroups - 1, scores, last_factors);  // of no round the first time
      }
      finish_products<kGroupQueries>(products);
      sum_lane<kGroupQueries>(products, space.weights + group * kGroupQueries, sums);
    }
    stream.find(tile_of(round + 3));
#pragma unroll
    for (int i = 0; i < kRowsPerLane; ++i) {
      last_factors[i] = factors[i];
      factors[i] = next_factors[i];
    }
#pragma unroll
    for (int i = 0; i < kSteps * 4; ++i) a[i / 4][i % 4] = next_a[i / 4][i % 4] + zero;
  }
  sum_quad<kGroupQueries>(sums, scores);
  offer(rounds.end - 1, kGroups - 1, scores, last_factors);
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
  const std::int64_t list = row * gridDim.y + blockIdx.y;
  if (space.alone[query]) {
    if (blockIdx.y != 0) return;
    write_ascending<kThreads>(bound, candidates, count, space.visible[query],
                              reinterpret_cast<std::uint32_t*>(space.queries), sizeof(space.queries) / 4,
                              args.selected + row * args.selected_stride, args.top_k, space.selection);
    if (gridDim.y > 1 && threadIdx.x == 0) args.lists.counts[list] = kDone;
    return;
  }
  if (bound != 0) count = drop_below<kThreads>(bound, candidates, count, space.selection);
  for (int i = static_cast<int>(threadIdx.x); i < count; i += kThreads) {
    args.lists.candidates[list * args.top_k + i] = candidates[i];
  }
  if (threadIdx.x == 0) args.lists.counts[list] = count;
  __syncthreads();
}

/// By the whole block: its split of its queries.
template <int kQueries, int kWarpgroups, bool kPageIsTile>
__device__ void score_split(const ScoreArgs& args, ScoreSpace<kQueries>& space) {
  constexpr int kThreads = kWarpgroups * kWarpgroup, kRoundKeys = kWarpgroups * kTileKeys;
  const int thread = static_cast<int>(threadIdx.x);
  const std::int64_t first_row = static_cast<std::int64_t>(blockIdx.x) * kQueries;
  if (thread == 0) space.zero = 0;
  if (thread < kQueries) {
    const std::int64_t row = first_row + thread;
    const bool exists = row < args.batch.num_rows;
    const int visible = exists ? num_visible(args.batch.positions[row]) : 0;
    space.counts[thread] = 0;
    space.thresholds[thread] = __uint_as_float(0x7FC00000u);
    space.visible[thread] = visible > args.top_k ? visible : 0;
    space.sequences[thread] = exists ? args.batch.sequence_of[row] : -1;
  }
  __syncthreads();
  bool scored = false, needed = blockIdx.y == 0;
  for (int first = 0, num_keys = 0; first < kQueries;) {
    const int last = end_of_run(first, space, num_keys);
    const SplitRounds rounds = split_rounds<kQueries, kRoundKeys>(num_keys);
    scored |= rounds.begin < rounds.end;
    needed |= !rounds.alone;
    if (thread >= first && thread < last) space.alone[thread] = rounds.alone;
    first = last;
  }
  if (!needed) return;
  if (blockIdx.y == 0) {
    for (int query = 0; query < kQueries; ++query) {
      const std::int64_t row = first_row + query;
      if (row >= args.batch.num_rows || space.visible[query] > 0) continue;
      write_all<kThreads>(num_visible(args.batch.positions[row]), args.selected + row * args.selected_stride,
                          args.top_k);
    }
  }
  if (scored) prepare_queries<kQueries, kThreads>(args, first_row, space);
  ptx::wait_for_previous_kernel();
  if (scored) {
    for (int first = 0, num_keys = 0; first < kQueries;) {
      const int last = end_of_run(first, space, num_keys);
      const SplitRounds rounds = split_rounds<kQueries, kRoundKeys>(num_keys);
      if (rounds.begin < rounds.end) {
        score_run<kQueries, kWarpgroups, kPageIsTile>(args, first, last, rounds, space);
      }
      first = last;
    }
  }
  // Not before: blocks of kernels to come, waiting on the other multiprocessors, fetch instructions where
  // this one does, which made it 3 us slower with one query.
  ptx::launch_next_kernel();
  __syncthreads();
  for (int query = 0; query < kQueries; ++query) {
    if (space.visible[query] > 0) finish_query<kQueries, kThreads>(args, query, first_row + query, space);
  }
}

/// Grid: (blocks of kQueries rows, splits of their keys).
template <int kQueries, int kWarpgroups, bool kPageIsTile>
__global__ __launch_bounds__(kWarpgroups* kWarpgroup,
                             1) void score_kernel(const __grid_constant__ ScoreArgs args) {
  extern __shared__ __align__(1024) std::byte shared[];
  auto& space = *reinterpret_cast<ScoreSpace<kQueries>*>(shared);
  if (threadIdx.x < kNumMagnitudes) space.magnitudes[threadIdx.x] = kMagnitudes[threadIdx.x];
  if (!args.queries_are_settled) ptx::wait_for_previous_kernel();
  score_split<kQueries, kWarpgroups, kPageIsTile>(args, space);
}

}  // namespace baleen::sm90::index_kernels
