// Indexer by mma.sync: a block has a query and a split of its keys. Keys are dequantised in registers, 16 a
// warp at a time, multiplied by all heads, relu, weighted, summed over heads: a score. What beats the
// threshold is appended to the candidates in shared memory; when they run full, the best top_k or a little
// more stay and the threshold rises. A second kernel merges what the splits of a query kept.
//
// A score depends on its key and its query alone: one product, one order of the heads. So the cut of the keys
// into splits does not show in the selection.
//
// Where blocks of keys are chosen, the best scores of blocks are candidates too, in lists of their own, the
// newest block's above all others. Where blocks are given, a block numbers their keys through and finds the
// n-th by the list, which it has in shared memory.

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "cuda/cuda_context.h"
#include "cuda/device_batch_rows.h"
#include "cuda/kernel_launch.h"
#include "cuda/ptx/grid_dependency.h"
#include "cuda/ptx/mma_bf16.h"
#include "cuda/ptx/saturate.h"
#include "ops/indexer/cuda/candidates.cuh"
#include "ops/indexer/cuda/indexer.h"
#include "ops/indexer/cuda/query_tile.cuh"
#include "ops/indexer/cuda/split_lists.cuh"

namespace baleen::BALEEN_ARCH {
namespace {

using namespace index_kernels;

constexpr int kTileKeys = 16, kTileHeads = 8;  ///< a matrix instruction multiplies
constexpr int kTileSteps = kDim / 16;          ///< matrix instructions along the dims

/// Of a block: with few queries, whose time is that of one block, and with many, of which a multiprocessor
/// then has two.
constexpr int kFewThreads = 512, kManyThreads = 256;
template <int kThreads>
constexpr int kRoundKeys = kThreads / kWarpLanes* kTileKeys;
/// Heads are multiplied in tiles of 8: all 64, or half of them.
constexpr int kAllTiles = kHeads / kTileHeads, kHalfTiles = kAllTiles / 2;
/// Blocks that a query chooses, or is given, at most, and their size: a warp's keys have whole ones.
constexpr int kMaxBlocks = 2048, kMaxBlockSize = kTileKeys;
/// Fewest keys of a split, if there are so many: with fewer, merging takes longer than scoring.
constexpr int kMinSplitKeys = 1024;
/// Candidates that a block keeps at most beside those of a round, and that a merging block can hold: as many
/// as fit 99 KiB beside the rest.
constexpr std::int64_t kMaxCandidates = 6 * 1024, kMergeCapacity = 10 * 1024;
/// Blocks are at most so many times as many as there are multiprocessors, when keys are split.
constexpr std::int64_t kMaxWaves = 4;

/// Blocks of 2^log2_size keys.
struct BlockArgs {
  int log2_size;
  int count;             ///< that a query chooses or is given; 0: there are no blocks
  std::int32_t* chosen;  ///< row r at chosen + r * stride; null: none are
  const std::int32_t* given;
  std::int64_t stride;
  SplitLists lists;  ///< chosen blocks, [rows][splits][count]; unused with one split
  int capacity;      ///< candidates
};

struct ScoreArgs {
  QueryInputs inputs;
  KeyPages pool;
  DeviceBatch batch;
  std::int32_t* selected;  ///< row r at selected + r * selected_stride
  std::int64_t selected_stride;
  SplitLists lists;  ///< unused with one split
  int top_k;
  int ratio;
  int capacity;  ///< candidates
  BlockArgs blocks;
};

/// A list of candidates under way.
struct Stream {
  int count;
  float threshold;  ///< NaN until candidates were dropped

  __device__ void clear() {
    count = 0;
    threshold = __uint_as_float(0x7FC00000u);
  }
};

struct ScoreSpace {
  /// The query as e4m3; in the end the bitmap of the selection.
  alignas(16) std::byte query[kQueryBytes];
  /// The query as the products take it: step, head, lane of four.
  alignas(16) uint2 operand[kTileSteps][kHeads][4];
  float weights[kHeads];  ///< as prepare_query orders them
  SelectionSpace selection;
  Stream keys, blocks;
  int num_given;
  alignas(16) Candidate candidates[];  ///< keys; behind them blocks, or the blocks given

  [[nodiscard]] __device__ Candidate* block_candidates(const ScoreArgs& args) {
    return candidates + args.capacity;
  }
  [[nodiscard]] __device__ std::int32_t* given(const ScoreArgs& args) {
    return reinterpret_cast<std::int32_t*>(candidates + args.capacity);
  }
};

/// The keys that a query scores, numbered through.
struct KeyNumbers {
  const std::int32_t* given = nullptr;  ///< blocks, in shared memory; null: all keys
  int log2_size = 0;

  [[nodiscard]] __device__ int operator()(int i) const {
    if (given == nullptr) return i;
    return given[i >> log2_size] << log2_size | (i & ((1 << log2_size) - 1));
  }
};

/// By the whole block: blocks given to `row` that begin among the `visible` keys to shared memory; how many
/// keys they have. Ends with a barrier.
template <int kThreads>
__device__ int load_given(const ScoreArgs& args, std::int64_t row, int visible, ScoreSpace& space) {
  const std::int32_t* from = args.blocks.given + row * args.blocks.stride;
  std::int32_t* to = space.given(args);
  if (threadIdx.x == 0) space.num_given = 0;
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < args.blocks.count; i += kThreads) {
    const std::int32_t block = __ldcg(from + i);
    to[i] = block;
    if (block >= 0 && block << args.blocks.log2_size < visible) atomicMax(&space.num_given, i + 1);
  }
  __syncthreads();
  const int num_given = space.num_given;
  if (num_given == 0) return 0;
  const int beyond = ((to[num_given - 1] + 1) << args.blocks.log2_size) - visible;
  return (num_given << args.blocks.log2_size) - max(0, beyond);
}

/// By the whole block, behind a barrier: the query that `prepare_query` has left, as operand of the products
/// with keys. Step s of lane q of four has the dims 4 s .. 4 s + 3 of group q. Ends with a barrier.
template <int kThreads>
__device__ void spread_query(ScoreSpace& space) {
  const std::uint32_t one = e4m3_multiplier(1.0F);
  for (int i = static_cast<int>(threadIdx.x); i < kTileSteps * kHeads * 4; i += kThreads) {
    const int quad = i % 4, head = i / 4 % kHeads, step = i / 4 / kHeads;
    const std::uint32_t codes = *reinterpret_cast<const std::uint32_t*>(space.query + head * kDim +
                                                                        (step ^ head % 8) * 16 + quad * 4);
    space.operand[step][head][quad] = {dequantise_e4m3_pair(codes, one),
                                       dequantise_e4m3_pair(codes >> 16, one)};
  }
  __syncthreads();
}

/// A lane's group of a key.
struct KeyGroup {
  uint4 codes;
  std::uint32_t scales;  ///< the four groups' codes

  __device__ void load(const KeyPages& pool, PageId page_of_key, int key, int quad) {
    const int rows_per_page = 1 << pool.log2_rows, row = key & (rows_per_page - 1);
    const auto page = static_cast<std::uint64_t>(static_cast<std::uint32_t>(page_of_key));
    const std::byte* base = pool.base + page * pool.page_stride_bytes;
    codes = __ldcg(reinterpret_cast<const uint4*>(base + row * kCodeBytes) + quad);
    scales = __ldcg(reinterpret_cast<const std::uint32_t*>(base + rows_per_page * kCodeBytes) + row);
  }
  [[nodiscard]] __device__ std::uint32_t largest_scale() const {
    return max(max(scales & 0xFFu, scales >> 8 & 0xFFu), max(scales >> 16 & 0xFFu, scales >> 24));
  }
  /// For dequantise_e4m3_pair: values then are those of the codes times 2^(own scale - largest scale).
  [[nodiscard]] __device__ std::uint32_t multiplier(int quad) const {
    constexpr std::uint32_t kOne = kE4m3ToBf16 + kE8m0Bias;
    const std::uint32_t below = largest_scale() - (scales >> (8 * quad) & 0xFFu);
    return bf16_power_of_two(kOne - min(below, kOne));
  }
  /// Eight values from the codes of a word, in order, two to a word.
  __device__ static void operand(std::uint32_t codes, std::uint32_t multiplier, std::uint32_t (&words)[4]) {
    // e4m3 codes of 0, 0.5, 1, 1.5 and 2, 3, 4, 6
    constexpr std::uint32_t kLow = 0x3C383000u, kHigh = 0x4C484440u;
    std::uint32_t first, second;
    dequantise_e2m1(codes, kLow, kHigh, first, second);
    words[0] = dequantise_e4m3_pair(first, multiplier);
    words[1] = dequantise_e4m3_pair(first >> 16, multiplier);
    words[2] = dequantise_e4m3_pair(second, multiplier);
    words[3] = dequantise_e4m3_pair(second >> 16, multiplier);
  }
  /// What the key's sums have to be multiplied by.
  [[nodiscard]] __device__ float factor() const { return e8m0_value(largest_scale()); }
};

/// A warp's keys, a round ahead of their products, and their pages, another one ahead: reads that wait for
/// each other then wait side by side. Of keys beyond the last one the last stands in.
template <int kThreads>
class KeyStream {
 public:
  __device__ KeyStream(const KeyPages& pool, const PageId* pages, const KeyNumbers& numbers, int first,
                       int last_key)
      : pool_(pool),
        pages_(pages),
        numbers_(numbers),
        next_(first + static_cast<int>(threadIdx.x) % kWarpLanes / 4),
        last_(last_key) {
    find_pages();
  }

  /// The first round's keys, after which `take` may follow.
  __device__ void load() {
#pragma unroll
    for (int i = 0; i < 2; ++i)
      keys_[i].load(pool_, found_[i], found_key_[i], static_cast<int>(threadIdx.x) % 4);
    next_ += kRoundKeys<kThreads>;
    find_pages();
  }

  /// The round's 16 keys: of a lane, g and g + 8. The next one's are on their way then.
  __device__ void take(KeyGroup (&keys)[2]) {
    keys[0] = keys_[0];
    keys[1] = keys_[1];
    load();
  }

 private:
  __device__ void find_pages() {
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      found_key_[i] = numbers_(min(next_ + 8 * i, last_));
      found_[i] = pages_[found_key_[i] >> pool_.log2_rows];
    }
  }

  const KeyPages& pool_;
  const PageId* pages_;
  const KeyNumbers& numbers_;
  int next_, last_;
  int found_key_[2];
  PageId found_[2];
  KeyGroup keys_[2];
};

/// By a warp: scores of 16 keys with 8 kTiles heads. Lanes 4 g and 4 g + 1 get those of keys g and g + 8.
template <int kTiles>
__device__ float score_keys(const KeyGroup (&keys)[2], const ScoreSpace& space) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpLanes, group = lane / 4, quad = lane % 4;
  std::uint32_t multipliers[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) multipliers[i] = keys[i].multiplier(quad);
  float products[kTiles][4] = {};
#pragma unroll
  for (int word = 0; word < kTileSteps / 2; ++word) {
    std::uint32_t upper[4], lower[4];
    const auto codes = [word](const uint4& all) {
      return word == 0 ? all.x : word == 1 ? all.y : word == 2 ? all.z : all.w;
    };
    KeyGroup::operand(codes(keys[0].codes), multipliers[0], upper);
    KeyGroup::operand(codes(keys[1].codes), multipliers[1], lower);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
#pragma unroll
      for (int tile = 0; tile < kTiles; ++tile) {
        const uint2 b = space.operand[2 * word + i][tile * kTileHeads + group][quad];
        ptx::mma_16x8x16(products[tile], upper[2 * i], lower[2 * i], upper[2 * i + 1], lower[2 * i + 1], b.x,
                         b.y);
      }
    }
  }
  // sum_h w_h relu(product_h), over the lane's heads in ascending order, then over the quad as (0 + 1) + (2 +
  // 3).
  float sums[2] = {};
#pragma unroll
  for (int head = 0; head < 2 * kTiles; ++head) {
    const float weight = space.weights[head / 4 * 16 + quad * 4 + head % 4];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const float positive =
          ptx::multiply_saturated(products[head / 2][2 * i + head % 2], power_of_two(-kSumBits));
      sums[i] = fmaf(weight, positive, sums[i]);
    }
  }
#pragma unroll
  for (float& sum : sums) {
    sum += __shfl_xor_sync(kAllLanes, sum, 1);
    sum += __shfl_xor_sync(kAllLanes, sum, 2);
  }
  return lowest_if_nan(quad % 2 == 0 ? sums[0] * keys[0].factor() : sums[1] * keys[1].factor());
}

/// By the whole block: a list that has grown beyond `limit` keeps its best `keep` or a little more.
template <int kThreads>
__device__ void make_room(Stream& stream, Candidate* candidates, int limit, int keep, SelectionSpace& space) {
  if (stream.count <= limit) return;  // the same for all threads: nothing changes it before the next barrier
  const int count = stream.count, most = keep + (limit - keep) / 4;
  const Candidate bound = bound_of_best<kThreads>(candidates, count, keep, most, space);
  const int kept = drop_below<kThreads>(bound, candidates, count, space);
  if (threadIdx.x == 0) {
    stream.count = kept;
    stream.threshold = score_of(bound);
  }
}

/// By the warps: a candidate of each lane with `wanted` that beats the threshold.
__device__ void offer(Stream& stream, Candidate* candidates, float score, int index, bool wanted) {
  wanted = wanted && !(score <= stream.threshold);
  const int to = append_position(wanted, &stream.count);
  if (wanted) candidates[to] = candidate(score, index);
}

/// By a warp: the best scores of the blocks among 16 keys from `first` on; lanes as score_keys leaves them.
/// The block `newest` is not among them.
__device__ void offer_blocks(const ScoreArgs& args, float score, int first, int end, int newest,
                             ScoreSpace& space) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpLanes, group = lane / 4, quad = lane % 4;
  const int size = 1 << args.blocks.log2_size;
  if (first + group + quad % 2 * 8 >= end) score = -INFINITY;
  for (int step = 1; step < min(size, 8); step *= 2)
    score = fmaxf(score, __shfl_xor_sync(kAllLanes, score, 4 * step));
  if (size == kMaxBlockSize) score = fmaxf(score, __shfl_xor_sync(kAllLanes, score, 1));
  const int key = first + group + quad % 2 * 8, block = key >> args.blocks.log2_size;
  const bool first_of_block = quad < 2 && key % size == 0;
  offer(space.blocks, space.block_candidates(args), score, block,
        first_of_block && key < end && block != newest);
}

/// Above all that have scores.
__device__ Candidate candidate_of_newest(int block) {
  return Candidate{0xFFFFFFFFu} << 32 | ~static_cast<std::uint32_t>(block);
}

/// By the whole block: keys [begin, end) of those that query `row` scores. What the first keys wait for is
/// under way while the query is prepared.
template <int kThreads, int kTiles>
__device__ void score_split(const ScoreArgs& args, std::int64_t row, int sequence, const KeyNumbers& numbers,
                            int begin, int end, int newest, ScoreSpace& space) {
  constexpr int kRound = kRoundKeys<kThreads>;
  const int warp = static_cast<int>(threadIdx.x) / kWarpLanes,
            lane = static_cast<int>(threadIdx.x) % kWarpLanes;
  const bool chooses = args.blocks.chosen != nullptr;
  // Of a block's keys none or all are in a round.
  const int block_limit = args.blocks.capacity - (kRound >> args.blocks.log2_size) - 1;
  // Else all fit, and warps need not meet.
  const bool may_fill = end - begin > args.capacity ||
                        (chooses && ((end - begin) >> args.blocks.log2_size) + 2 > args.blocks.capacity);
  KeyStream<kThreads> stream(args.pool, args.batch.sequences[sequence].pages, numbers,
                             begin + warp * kTileKeys, end - 1);
  prepare_query<kThreads>(args.inputs, row, space.query, space.weights);
  stream.load();
  __syncthreads();
  spread_query<kThreads>(space);
  for (int first = begin; first < end; first += kRound) {
    if (may_fill) {
      __syncthreads();
      make_room<kThreads>(space.keys, space.candidates, args.capacity - kRound, args.top_k, space.selection);
      if (chooses) {
        make_room<kThreads>(space.blocks, space.block_candidates(args), block_limit, args.blocks.count,
                            space.selection);
      }
      __syncthreads();
    }
    const int tile = first + warp * kTileKeys;
    if (tile < end) {
      KeyGroup keys[2];
      stream.take(keys);
      const float score = score_keys<kTiles>(keys, space);
      const int key = tile + lane / 4 + lane % 2 * 8;
      offer(space.keys, space.candidates, score, numbers(min(key, end - 1)), lane % 4 < 2 && key < end);
      if (chooses) offer_blocks(args, score, tile, end, newest, space);
    }
  }
  __syncthreads();
}

/// By the whole block: what a split has kept goes to its list.
template <int kThreads>
__device__ void leave_list(const SplitLists& lists, std::int64_t list, int top, Candidate* candidates,
                           int count, SelectionSpace& space) {
  if (count > top) {
    const Candidate bound = bound_of_best<kThreads>(candidates, count, top, top, space);
    count = drop_below<kThreads>(bound, candidates, count, space);
  }
  for (int i = static_cast<int>(threadIdx.x); i < count; i += kThreads)
    lists.candidates[list * top + i] = candidates[i];
  if (threadIdx.x == 0) lists.counts[list] = count;
}

/// By the whole block: the best `top` of the candidates, ascending.
template <int kThreads>
__device__ void write_best(Candidate* candidates, int count, int top, int num_indices, std::uint32_t* bitmap,
                           int bitmap_words, std::int32_t* to, SelectionSpace& space) {
  const Candidate bound = count > top ? bound_of_best<kThreads>(candidates, count, top, top, space) : 0;
  write_ascending<kThreads>(bound, candidates, count, num_indices, bitmap, bitmap_words, to, top, space);
}

/// Grid: (rows, splits of their keys).
template <int kThreads, int kTiles>
__global__ void __launch_bounds__(kThreads)
    score_kernel(const __grid_constant__ ScoreArgs args, NextAtOnce order) {
  extern __shared__ __align__(16) std::byte dynamic[];
  auto& space = *reinterpret_cast<ScoreSpace*>(dynamic);
  order.launch_next();
  ptx::wait_for_previous_kernel();
  const std::int64_t row = blockIdx.x;
  const int split = static_cast<int>(blockIdx.y), splits = static_cast<int>(gridDim.y);
  const int visible = num_visible(args.batch.positions[row], args.ratio),
            sequence = args.batch.sequence_of[row];
  const BlockArgs& blocks = args.blocks;
  const bool chooses = blocks.chosen != nullptr, restricted = blocks.given != nullptr;
  const int num_blocks = chooses ? (visible + (1 << blocks.log2_size) - 1) >> blocks.log2_size : 0;
  std::int32_t* const selected = args.selected + row * args.selected_stride;
  std::int32_t* const chosen = chooses ? blocks.chosen + row * blocks.stride : nullptr;
  const std::int64_t list = row * splits + split;

  KeyNumbers numbers;
  int size = visible;
  if (restricted) {
    size = load_given<kThreads>(args, row, visible, space);
    numbers = {space.given(args), blocks.log2_size};
  }
  if (size <= args.top_k && num_blocks <= blocks.count) {
    if (split != 0) return;
    for (int i = static_cast<int>(threadIdx.x); i < args.top_k; i += kThreads)
      selected[i] = i < size ? numbers(i) : -1;
    if (chooses) write_all<kThreads>(num_blocks, chosen, blocks.count);
    if (splits > 1 && threadIdx.x == 0) args.lists.counts[list] = kDone;
    return;
  }
  const int rounds = (size + kRoundKeys<kThreads> - 1) / kRoundKeys<kThreads>;
  const int each =
      kRoundKeys<kThreads> * max(kMinSplitKeys / kRoundKeys<kThreads>, (rounds + splits - 1) / splits);
  const int begin = min(size, each * split), end = min(size, begin + each);
  const bool alone = each >= size;  // the first split has all keys
  if (alone && split != 0) return;
  if (threadIdx.x == 0) {
    space.keys.clear();
    space.blocks.clear();
    if (chooses && split == 0)
      space.block_candidates(args)[space.blocks.count++] = candidate_of_newest(num_blocks - 1);
  }
  if (begin < end) {
    score_split<kThreads, kTiles>(args, row, sequence, numbers, begin, end, num_blocks - 1, space);
  } else {
    __syncthreads();
  }

  const int count = space.keys.count, block_count = space.blocks.count;
  if (!alone) {
    leave_list<kThreads>(args.lists, list, args.top_k, space.candidates, count, space.selection);
    if (chooses) {
      leave_list<kThreads>(blocks.lists, list, blocks.count, space.block_candidates(args), block_count,
                           space.selection);
    }
    return;
  }
  auto* const bitmap = reinterpret_cast<std::uint32_t*>(space.query);
  write_best<kThreads>(space.candidates, count, args.top_k, visible, bitmap, kQueryBytes / 4, selected,
                       space.selection);
  if (chooses) {
    write_best<kThreads>(space.block_candidates(args), block_count, blocks.count, num_blocks, bitmap,
                         kQueryBytes / 4, chosen, space.selection);
  }
  if (splits > 1 && threadIdx.x == 0) args.lists.counts[list] = kDone;
}

/// By the whole block: the best `top` of a row's lists, as many of them at a time as there is room for, to
/// `to`.
__device__ void merge_lists(const SplitLists& lists, std::int64_t row, int num_splits, int top,
                            int num_indices, std::int32_t* to, MergeSpace& space) {
  constexpr int kCapacity = static_cast<int>(kMergeCapacity);
  if (threadIdx.x == 0) space.count = 0;
  __syncthreads();
  for (int first = 0, next = 0; first < num_splits; first = next) {
    const int count = space.count;
    if (count > top) {
      const Candidate bound =
          bound_of_best<kMergeThreads>(space.candidates, count, top, top, space.selection);
      const int kept = drop_below<kMergeThreads>(bound, space.candidates, count, space.selection);
      if (threadIdx.x == 0) space.count = kept;
      __syncthreads();
    }
    next = min(num_splits, first + (kCapacity - min(count, top)) / top);
    gather_lists(lists, row * num_splits, first, 1, next, top, space);
    __syncthreads();
  }
  write_best<kMergeThreads>(space.candidates, space.count, top, num_indices, space.bitmap, kBitmapWords, to,
                            space.selection);
}

/// Grid: rows.
__global__ void __launch_bounds__(kMergeThreads)
    merge_kernel(const __grid_constant__ MergeArgs args, const __grid_constant__ BlockArgs blocks,
                 NextAtOnce order) {
  extern __shared__ __align__(16) std::byte dynamic[];
  auto& space = *reinterpret_cast<MergeSpace*>(dynamic);
  order.launch_next();
  ptx::wait_for_previous_kernel();
  const std::int64_t row = blockIdx.x;
  if (args.lists.counts[row * args.num_splits] == kDone) return;
  const int visible = num_visible(args.batch.positions[row], args.ratio);
  merge_lists(args.lists, row, args.num_splits, args.top_k, visible,
              args.selected + row * args.selected_stride, space);
  if (blocks.chosen == nullptr) return;
  const int num_blocks = (visible + (1 << blocks.log2_size) - 1) >> blocks.log2_size;
  merge_lists(blocks.lists, row, args.num_splits, blocks.count, num_blocks,
              blocks.chosen + row * blocks.stride, space);
}

int num_splits_of(std::int64_t num_rows, std::int64_t num_sms, std::int64_t top_k) {
  const std::int64_t most = std::min(kMaxWaves * num_sms / num_rows, kMergeCapacity / top_k);
  return static_cast<int>(std::max<std::int64_t>(1, most));
}

/// Blocks' candidates: those that are kept, half as many more, a round's and the newest one.
int block_capacity(std::int64_t count, std::int64_t block_size, int round_keys) {
  return static_cast<int>(count + count / 2 + round_keys / block_size + 1);
}

template <int kThreads, int kTiles>
void launch_scores(ScoreArgs args, std::int64_t num_rows, int num_splits, const CudaContext& context) {
  constexpr int kRound = kRoundKeys<kThreads>;
  args.capacity = static_cast<int>(std::min(4 * std::int64_t{args.top_k}, kMaxCandidates)) + kRound;
  std::size_t shared_bytes = sizeof(ScoreSpace) + sizeof(Candidate) * args.capacity;
  if (args.blocks.chosen != nullptr) {
    args.blocks.capacity = block_capacity(args.blocks.count, 1 << args.blocks.log2_size, kRound);
    shared_bytes += sizeof(Candidate) * args.blocks.capacity;
  } else if (args.blocks.given != nullptr) {
    shared_bytes += sizeof(std::int32_t) * args.blocks.count;
  }
  launch_kernel("indexer: scores", score_kernel<kThreads, kTiles>,
                {.grid = dim3(static_cast<unsigned>(num_rows), static_cast<unsigned>(num_splits)),
                 .threads = kThreads,
                 .shared_bytes = static_cast<std::int64_t>(shared_bytes)},
                context.stream, args);
}

BlockArgs block_args(const IndexerArgs& args) {
  const IndexBlocks& blocks = args.blocks;
  if (blocks.size == 0) return {};
  BALEEN_CHECK(std::has_single_bit(static_cast<std::uint64_t>(blocks.size)));
  BALEEN_CHECK_LE(blocks.size, std::int64_t{kMaxBlockSize});
  BALEEN_CHECK_LE(blocks.count(), std::int64_t{kMaxBlocks});
  BALEEN_CHECK_LE(args.selected.extent(1), std::int64_t{kMaxBlocks} / 2);  // both lists in shared memory
  BlockArgs result{.log2_size = std::countr_zero(static_cast<std::uint64_t>(blocks.size)),
                   .count = static_cast<int>(blocks.count())};
  if (blocks.are_chosen()) {
    result.chosen = blocks.chosen.data();
    result.stride = blocks.chosen.stride(0);
  } else {
    result.given = blocks.given.data();
    result.stride = blocks.given.stride(0);
  }
  return result;
}

}  // namespace

void check_indexer_arguments(const IndexerArgs& args, const CudaContext& context) {
  const std::int64_t num_rows = args.q.extent(0);
  BALEEN_CHECK_LE(args.first_row + num_rows, context.batch.num_rows);
  BALEEN_CHECK(args.precision == Precision::kReleased && args.keys.format.precision == Precision::kReleased);
  BALEEN_CHECK(args.head_weights.extent(0) == num_rows && args.selected.extent(0) == num_rows);
  BALEEN_CHECK_EQ(args.q.extent(2), kDim);
  BALEEN_CHECK_EQ(args.keys.format.dim, kDim);
  BALEEN_CHECK_LE(1, args.q.extent(1));
  BALEEN_CHECK_LE(args.q.extent(1), kHeads);
  BALEEN_CHECK_EQ(args.q.extent(1), args.head_weights.extent(1));
  BALEEN_CHECK_LE(2 * args.cosine.extent(1), kDim);
  BALEEN_CHECK_LE(1, args.selected.extent(1));
  BALEEN_CHECK_LE(args.selected.extent(1), kMaxTopK);
  BALEEN_CHECK(std::has_single_bit(static_cast<unsigned>(args.keys.rows_per_page)));
  // Rows are loaded 16 bytes at a time.
  BALEEN_CHECK(reinterpret_cast<std::uintptr_t>(args.q.address()) % 16 == 0 && args.q.stride(0) % 8 == 0 &&
               args.q.stride(1) % 8 == 0);
}

std::int64_t mma_indexer_scratch_bytes(std::int64_t max_rows, std::int64_t top_k, int num_sms,
                                       std::int64_t num_blocks) {
  const std::int64_t lists =
      std::min(kMaxWaves * num_sms, max_rows * std::max<std::int64_t>(1, kMergeCapacity / top_k));
  return Arena::bytes_for<Candidate>(lists * top_k) + Arena::bytes_for<Candidate>(lists * num_blocks) +
         2 * Arena::bytes_for<std::int32_t>(lists);
}

void mma_indexer(const IndexerArgs& args, CudaContext& context) {
  check_indexer_arguments(args, context);
  const std::int64_t num_rows = args.q.extent(0), num_heads = args.q.extent(1),
                     top_k = args.selected.extent(1);
  if (num_rows == 0) return;
  const DeviceBatch batch = rows_of(context.batch, args.first_row, num_rows);
  const int num_splits = num_splits_of(num_rows, context.num_sms, top_k);
  const ScratchScope scope(context.scratch);
  const auto lists_of = [&](std::int64_t top) {
    return SplitLists{context.scratch.allocate<Candidate>(num_rows * num_splits * top),
                      context.scratch.allocate<std::int32_t>(num_rows * num_splits)};
  };
  BlockArgs blocks = block_args(args);
  SplitLists lists{};
  if (num_splits > 1) {
    lists = lists_of(top_k);
    if (blocks.chosen != nullptr) blocks.lists = lists_of(blocks.count);
  }
  const ScoreArgs scoring{
      .inputs = query_inputs(args),
      .pool = {.base = args.keys.base,
               .page_stride_bytes = static_cast<std::uint32_t>(args.keys.page_stride_bytes),
               .log2_rows = std::countr_zero(static_cast<unsigned>(args.keys.rows_per_page))},
      .batch = batch,
      .selected = args.selected.data(),
      .selected_stride = args.selected.stride(0),
      .lists = lists,
      .top_k = static_cast<int>(top_k),
      .ratio = args.ratio,
      .capacity = 0,
      .blocks = blocks};
  const bool few = num_rows <= context.num_sms, half = num_heads <= kHalfTiles * kTileHeads;
  const auto launch =
      few    ? half ? launch_scores<kFewThreads, kHalfTiles> : launch_scores<kFewThreads, kAllTiles>
         : half ? launch_scores<kManyThreads, kHalfTiles>
             : launch_scores<kManyThreads, kAllTiles>;
  launch(scoring, num_rows, num_splits, context);
  if (num_splits == 1) return;
  const std::int64_t longest = std::max<std::int64_t>(top_k, blocks.chosen != nullptr ? blocks.count : 0);
  const std::int64_t candidates = std::min(kMergeCapacity, num_splits * longest);
  launch_kernel(
      "indexer: merging", merge_kernel,
      {.grid = dim3(static_cast<unsigned>(num_rows)),
       .threads = kMergeThreads,
       .shared_bytes = static_cast<std::int64_t>(sizeof(MergeSpace) + sizeof(Candidate) * candidates)},
      context.stream,
      MergeArgs{.lists = lists,
                .batch = batch,
                .selected = args.selected.data(),
                .selected_stride = args.selected.stride(0),
                .top_k = static_cast<int>(top_k),
                .num_splits = num_splits,
                .ratio = args.ratio},
      blocks);
}

}  // namespace baleen::BALEEN_ARCH
