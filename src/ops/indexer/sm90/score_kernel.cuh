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

#include <array>
#include <cstdint>

#include "cuda/device_batch.h"
#include "cuda/ptx/grid_dependency.h"
#include "cuda/ptx/saturate.h"
#include "cuda/ptx/wgmma.h"
#include "cuda/ptx/wgmma_e4m3.h"
#include "cuda/scale_group.cuh"
#include "ops/indexer/cuda/candidates.cuh"
#include "ops/indexer/cuda/query_tile.cuh"
#include "ops/indexer/cuda/split_lists.cuh"
#include "tensor/ragged_batch.h"

namespace baleen::sm90::index_kernels {

// Keys from their pages into registers: loaded as FP4, dequantised to e4m3 as the A operand of the product
// with the queries (query_tile.cuh says how and in which order of dims).

inline constexpr int kLog2TileKeys = 6;
inline constexpr int kTileKeys = 1 << kLog2TileKeys;  ///< that a warpgroup multiplies at a time
/// Rows of a tile that a lane has: l / 4 and l / 4 + 8 of the warp's sixteen.
inline constexpr int kRowsPerLane = 2;

/// One group of a key, and the scale codes of all four.
struct PackedRow {
  uint4 codes;
  std::uint32_t scales;
};

/// The e4m3 magnitudes of the eight e2m1 magnitudes times 2^(kHeadroomBits - k), for k from 0 on; the last is
/// all 0.
inline constexpr int kNumMagnitudes = 20;
using MagnitudeTable = std::array<std::uint64_t, kNumMagnitudes>;

constexpr MagnitudeTable magnitude_table() {
  constexpr std::array<std::uint64_t, 8> kDoubled{0, 1, 2, 3, 4, 6, 8, 12};  // e2m1, times two
  constexpr int kUnitBits = 9;  // in units of the smallest subnormal, 2^-9
  MagnitudeTable table{};
  for (int k = 0; k < kNumMagnitudes; ++k) {
    for (int i = 0; i < 8; ++i) {
      const int shift = kHeadroomBits + kUnitBits - 1 - k;
      std::uint64_t units = shift >= 0 ? kDoubled[i] << shift : kDoubled[i] >> -shift;
      if (shift < 0) {  // to nearest even
        const std::uint64_t lost = kDoubled[i] - (units << -shift), half = std::uint64_t{1} << (-shift - 1);
        if (lost > half || (lost == half && units % 2 != 0)) ++units;
      }
      std::uint64_t code = units;  // subnormal
      if (units >= 8) {
        int log2 = 0;
        while (units >> (log2 + 1) != 0) ++log2;
        code = static_cast<std::uint64_t>(log2 - 2) << 3 | (units >> (log2 - 3) & 7);
      }
      table[k] |= code << (8 * i);
    }
  }
  return table;
}

__constant__ constexpr MagnitudeTable kMagnitudes = magnitude_table();

/// A lane's rows of one tile after another. Where a page is a tile (64 rows, the engine's size) finding them
/// is one lookup a tile and their places in the page are fixed.
template <bool kPageIsTile>
class KeyStream {
 public:
  /// `lane_key`: the lane's first key in tile 0. `num_keys`: beyond the last one it stands in.
  __device__ KeyStream(const KeyPages& pool, const PageId* pages, int lane_key, int scale_group, int num_keys)
      : pool_(pool), pages_(pages), lane_key_(lane_key), scale_group_(scale_group), last_key_(num_keys - 1) {}

  /// Looks up where the tile's keys are.
  __device__ void find(int tile) {
#pragma unroll
    for (int i = 0; i < kLookups; ++i) {
      const int page = kPageIsTile ? min(tile, last_key_ / kTileKeys) : key_of(tile, i) >> pool_.log2_rows;
      found_[i] = pages_[page];
    }
  }

  /// Begins to load the lane's key `i` of the tile that was found last.
  __device__ PackedRow load(int tile, int i) const {
    const int rows_per_page = kPageIsTile ? kTileKeys : 1 << pool_.log2_rows;
    const int row = kPageIsTile ? lane_key_ : key_of(tile, i) & (rows_per_page - 1);
    const int beyond = kPageIsTile ? 8 * i : 0;
    const auto page = std::uint64_t{static_cast<std::uint32_t>(found_[kPageIsTile ? 0 : i])};
    const std::byte* base = pool_.base + page * pool_.page_stride_bytes;
    const std::byte* codes = base + (row * kCodeBytes + scale_group_ * (kGroupDims / 2));
    const std::byte* scales = base + (rows_per_page * kCodeBytes + row * kScaleGroups);
    // Past the first-level cache: the row may be new, where the page's lines were seen without it.
    return {__ldcg(reinterpret_cast<const uint4*>(codes) + beyond * kCodeBytes / 16),
            __ldcg(reinterpret_cast<const std::uint32_t*>(scales) + beyond)};
  }

 private:
  static constexpr int kLookups = kPageIsTile ? 1 : kRowsPerLane;

  __device__ int key_of(int tile, int i) const {
    return min(tile * kTileKeys + lane_key_ + 8 * i, last_key_);
  }

  const KeyPages& pool_;
  const PageId* pages_;
  int lane_key_, scale_group_, last_key_;
  PageId found_[kLookups];
};

/// Fills the part of the A operand of this lane's key `i`; what the key's sums have to be multiplied by.
/// `magnitudes`:
/// kMagnitudes, in shared memory.
__device__ inline float dequantise_row(const PackedRow& row, int i, int scale_group,
                                       const std::uint64_t* magnitudes, std::uint32_t (&a)[kSteps][4]) {
  constexpr std::uint32_t kEvenBytes = 0x00FF00FFu;
  const std::uint32_t pairs = __vmaxu2(row.scales & kEvenBytes, row.scales >> 8 & kEvenBytes);
  const std::uint32_t largest = max(pairs & 0xFFu, pairs >> 16);
  const std::uint32_t own = row.scales >> (8 * scale_group) & 0xFFu;
  const std::uint64_t table = magnitudes[min(largest - own, kNumMagnitudes - 1u)];
  const auto low = static_cast<std::uint32_t>(table), high = static_cast<std::uint32_t>(table >> 32);
  const std::uint32_t words[kSteps] = {row.codes.x, row.codes.y, row.codes.z, row.codes.w};
#pragma unroll
  for (int step = 0; step < kSteps; ++step)
    dequantise_e2m1(words[step], low, high, a[step][i], a[step][2 + i]);
  // The float of which 255 is the exponent is infinite and has to become NaN; the others stay as they are.
  const float scale = __uint_as_float(max(largest << 23, 0x00400000u));
  return fmaf(scale, power_of_two(-kHeadroomBits), scale - scale);
}

// A tile of keys times all heads of a group of queries, and the sum over heads.
//
// Keys are the rows (A, registers), kHeads columns a query (B, shared memory). A lane of warp w holds the
// products of keys 16 w + l / 4 and that + 8 with heads 8 g + 2 (l % 4) + {0, 1}.

template <int kQueries>
using Products = float[kQueries * kHeads / 2];

/// Queues the products; `finish_products` waits for them.
template <int kQueries>
__device__ inline void begin_products(const std::uint32_t (&a)[kSteps][4], std::uint64_t queries,
                                      Products<kQueries>& products) {
  constexpr std::uint64_t kStepUnits = kDim / kSteps / 16;  // of a descriptor's address
  ptx::wgmma_fence();
#pragma unroll
  for (int step = 0; step < kSteps; ++step) {
    ptx::wgmma_e4m3<kQueries * kHeads>(products, a[step], queries + step * kStepUnits, step > 0);
  }
  ptx::wgmma_commit();
}

template <int kQueries>
__device__ inline void finish_products(Products<kQueries>& products) {
  ptx::wgmma_wait<0>();
#pragma unroll
  for (float& product : products) ptx::wgmma_hold(product);
}

/// A lane's sums over its heads, of its two keys for each query.
template <int kQueries>
using LaneSums = float[kQueries][kRowsPerLane];

/// sum_h w_h relu(product_h) over the lane's heads in ascending order.
template <int kQueries>
__device__ inline void sum_lane(const Products<kQueries>& products, const float (*weights)[kHeads],
                                LaneSums<kQueries>& sums) {
  const int scale_group = static_cast<int>(threadIdx.x) % kScaleGroups;
#pragma unroll
  for (int head = 0; head < kHeads / kScaleGroups; ++head) {
#pragma unroll
    for (int query = 0; query < kQueries; ++query) {
      const float weight = weights[query][head / 4 * 16 + scale_group * 4 + head % 4];
#pragma unroll
      for (int i = 0; i < kRowsPerLane; ++i) {
        const float product = products[query * 32 + head / 2 * 4 + i * 2 + head % 2];
        const float positive = ptx::multiply_saturated(product, power_of_two(-kSumBits));
        sums[query][i] = fmaf(weight, positive, head == 0 ? 0.0F : sums[query][i]);
      }
    }
  }
}

/// What a lane has after sum_quad: whole sums of one query, for kWholeSums of its two keys.
template <int kQueries>
struct QuadPlace {
  static_assert(kQueries == 1 || kQueries == 2 || kQueries == 4);
  static constexpr int kWholeSums = kQueries == 4 ? 2 : 1;
  int query, first_key;
  bool own;  ///< false: another lane has the same sum

  __device__ static QuadPlace of_lane() {
    const int odd = static_cast<int>(threadIdx.x) % 2, upper = static_cast<int>(threadIdx.x) / 2 % 2;
    if constexpr (kQueries == 4) return {2 * odd + upper, 0, true};
    if constexpr (kQueries == 2) return {odd, upper, true};
    return {0, odd, upper == 0};
  }
};

/// Over the quad as (0 + 1) + (2 + 3). Instead of all sums everywhere, each exchange halves those that a lane
/// is left with.
template <int kQueries>
__device__ inline void sum_quad(const LaneSums<kQueries>& sums,
                                float (&whole)[QuadPlace<kQueries>::kWholeSums]) {
  constexpr int kHalf = kQueries, kQuarter = kQueries / 2;  // of the sums of two keys a query
  const bool odd = threadIdx.x % 2 != 0, upper = threadIdx.x / 2 % 2 != 0;
  const auto sum = [&](int at) { return sums[at / kRowsPerLane][at % kRowsPerLane]; };
  float half[kHalf];
#pragma unroll
  for (int i = 0; i < kHalf; ++i) {
    const float given = odd ? sum(i) : sum(kHalf + i);
    half[i] = (odd ? sum(kHalf + i) : sum(i)) + __shfl_xor_sync(kAllLanes, given, 1);
  }
  if constexpr (kQuarter == 0) {
    whole[0] = half[0] + __shfl_xor_sync(kAllLanes, half[0], 2);
  } else {
#pragma unroll
    for (int i = 0; i < kQuarter; ++i) {
      const float given = upper ? half[i] : half[kQuarter + i];
      whole[i] = (upper ? half[kQuarter + i] : half[i]) + __shfl_xor_sync(kAllLanes, given, 2);
    }
  }
}

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

struct ScoreArgs {
  QueryInputs inputs;
  KeyPages pool;
  DeviceBatch batch;
  std::int32_t* selected;  ///< row r at selected + r * selected_stride
  std::int64_t selected_stride;
  SplitLists lists;  ///< unused with one split
  int top_k;
  int ratio;
  int capacity;     ///< candidates of a query
  bool is_settled;  ///< queries may be read, and `selected` written, before the kernel's wait
};

/// Shared memory of a block; what needs an alignment comes first, the candidates [kQueries][capacity] after
/// it.
template <int kQueries>
struct ScoreSpace {
  /// Queries, and in the end the bitmap of the selection.
  alignas(1024) std::byte queries[kQueries][kQueryBytes];
  alignas(16) float weights[kQueries][kHeads];  ///< as prepare_query orders them
  std::uint64_t magnitudes[kNumMagnitudes];
  std::uint32_t zero;
  SelectionSpace selection;
  int counts[kQueries];
  float thresholds[kQueries];      ///< NaN until candidates were dropped
  std::int32_t visible[kQueries];  ///< keys that a query sees if it needs scores, else 0
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
  const int scale_group = thread % kScaleGroups;
  const int warpgroup = thread / kWarpgroup,
            lane_key = thread % kWarpgroup / kWarpLanes * 16 + thread % kWarpLanes / 4;
  const auto tile_of = [&](int round) { return round * kWarpgroups + warpgroup; };
  KeyStream<kPageIsTile> stream(args.pool, args.batch.sequences[space.sequences[first]].pages, lane_key,
                                scale_group, rounds.num_keys);
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
    factors[i] = dequantise_row(rows[i], i, scale_group, space.magnitudes, a);
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
        next_factors[i] = dequantise_row(rows[i], i, scale_group, space.magnitudes, next_a);
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
__device__ void score_split(const ScoreArgs& args, ScoreSpace<kQueries>& space, const NextBehindWait& order) {
  constexpr int kThreads = kWarpgroups * kWarpgroup, kRoundKeys = kWarpgroups * kTileKeys;
  const int thread = static_cast<int>(threadIdx.x);
  const std::int64_t first_row = static_cast<std::int64_t>(blockIdx.x) * kQueries;
  if (thread == 0) space.zero = 0;
  if (thread < kQueries) {
    const std::int64_t row = first_row + thread;
    const bool exists = row < args.batch.num_rows;
    const int visible = exists ? num_visible(args.batch.positions[row], args.ratio) : 0;
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
      write_all<kThreads>(num_visible(args.batch.positions[row], args.ratio),
                          args.selected + row * args.selected_stride, args.top_k);
    }
  }
  if (scored) prepare_queries<kQueries, kThreads>(args, first_row, space);
  const NextBehindWait::Waited waited = order.wait();
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
  waited.launch_next();
  __syncthreads();
  for (int query = 0; query < kQueries; ++query) {
    if (space.visible[query] > 0) finish_query<kQueries, kThreads>(args, query, first_row + query, space);
  }
}

/// Grid: (blocks of kQueries rows, splits of their keys).
template <int kQueries, int kWarpgroups, bool kPageIsTile>
__global__ __launch_bounds__(kWarpgroups* kWarpgroup,
                             1) void score_kernel(const __grid_constant__ ScoreArgs args,
                                                  NextBehindWait order) {
  extern __shared__ __align__(1024) std::byte shared[];
  auto& space = *reinterpret_cast<ScoreSpace<kQueries>*>(shared);
  if (threadIdx.x < kNumMagnitudes) space.magnitudes[threadIdx.x] = kMagnitudes[threadIdx.x];
  if (!args.is_settled) order.wait();
  score_split<kQueries, kWarpgroups, kPageIsTile>(args, space, order);
}

}  // namespace baleen::sm90::index_kernels
