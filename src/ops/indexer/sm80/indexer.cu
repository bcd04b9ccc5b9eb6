// Indexer by mma.sync: a block has a query and a split of its keys. Keys are dequantised in registers, 16 a
// warp at a time, multiplied by all heads, relu, weighted, summed over heads: a score. What beats the
// threshold is appended to the candidates in shared memory; when they run full, the best top_k or a little
// more stay and the threshold rises. A second kernel merges what the splits of a query kept.
//
// A score depends on its key and its query alone: one product, one order of the heads. So the cut of the keys
// into splits does not show in the selection.

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/check.h"
#include "cuda/cuda_context.h"
#include "cuda/device_batch_rows.h"
#include "cuda/kernel_launch.h"
#include "cuda/ptx/grid_dependency.h"
#include "cuda/ptx/saturate.h"
#include "ops/indexer/cuda/candidates.cuh"
#include "ops/indexer/cuda/indexer.h"
#include "ops/indexer/cuda/query_tile.cuh"
#include "ops/indexer/cuda/split_lists.cuh"
#include "ops/matmul/sm80/slice_products.cuh"

namespace baleen::sm80 {
namespace {

using namespace index_kernels;

constexpr std::int64_t kMaxTopK = 2048;
/// Of a block: with few queries, whose time is that of one block, and with many, of which a multiprocessor
/// then has two.
constexpr int kFewThreads = 512, kManyThreads = 256;
constexpr int kWarpKeys = kTileOutputs;
template <int kThreads>
constexpr int kRoundKeys = kThreads / kWarpLanes* kWarpKeys;
constexpr int kHeadTiles = kHeads / kTileTokens;
/// Fewest keys of a split, if there are so many: with fewer, merging takes longer than scoring.
constexpr int kMinSplitKeys = 1024;
/// Candidates that a block keeps at most beside those of a round, and that a merging block can hold: as many
/// as fit 99 KiB beside the rest.
constexpr std::int64_t kMaxCandidates = 6 * 1024, kMergeCapacity = 10 * 1024;
/// Blocks are at most so many times as many as there are multiprocessors, when keys are split.
constexpr std::int64_t kMaxWaves = 4;

struct ScoreArgs {
  QueryInputs inputs;
  KeyPages pool;
  DeviceBatch batch;
  std::int32_t* selected;  ///< row r at selected + r * selected_stride
  std::int64_t selected_stride;
  SplitLists lists;  ///< unused with one split
  int top_k;
  int capacity;  ///< candidates
};

struct ScoreSpace {
  /// The query as e4m3; in the end the bitmap of the selection.
  alignas(16) std::byte query[kQueryBytes];
  /// The query as the products take it: step, head, lane of four.
  alignas(16) uint2 operand[kSliceSteps][kHeads][4];
  float weights[kHeads];  ///< as prepare_query orders them
  SelectionSpace selection;
  int count;
  float threshold;  ///< NaN until candidates were dropped
  alignas(16) Candidate candidates[];
};

/// By the whole block, behind a barrier: the query that `prepare_query` has left, as operand of the products
/// with keys. Ends with a barrier.
template <int kThreads>
__device__ void spread_query(ScoreSpace& space) {
  const std::uint32_t one = e4m3_multiplier(1.0F);
  for (int i = static_cast<int>(threadIdx.x); i < kSliceSteps * kHeads * 4; i += kThreads) {
    const int quad = i % 4, head = i / 4 % kHeads, step = i / 4 / kHeads;
    const auto word = [&](int chunk) {  // dims 4 chunk .. of group `quad`
      return *reinterpret_cast<const std::uint32_t*>(space.query + head * kDim + (chunk ^ head % 8) * 16 +
                                                     quad * 4);
    };
    const std::uint32_t first = word(step / 2 * 2), second = word(step / 2 * 2 + 1);
    const bool even = step % 2 == 0;
    space.operand[step][head][quad] = {
        multiply_spread_codes(
            even ? ptx::byte_permute<0xC480>(first, second) : ptx::byte_permute<0xE6A2>(first, second), one),
        multiply_spread_codes(
            even ? ptx::byte_permute<0xD591>(first, second) : ptx::byte_permute<0xF7B3>(first, second), one)};
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
  /// For weight_operand: values then are those of the codes times 2^(own scale - largest scale).
  [[nodiscard]] __device__ std::uint32_t multiplier(int quad) const {
    constexpr std::uint32_t kOne = 126 + kE8m0Bias;  // codes count from 2^-126
    const std::uint32_t below = largest_scale() - (scales >> (8 * quad) & 0xFFu);
    return bf16_power_of_two(kOne - min(below, kOne));
  }
  /// What the key's sums have to be multiplied by.
  [[nodiscard]] __device__ float factor() const { return e8m0_value(largest_scale()); }
};

/// A warp's keys, a round ahead of their products, and their pages, another one ahead: reads that wait for
/// each other then wait side by side. Of keys beyond the last one the last stands in.
template <int kThreads>
class KeyStream {
 public:
  __device__ KeyStream(const KeyPages& pool, const PageId* pages, int first, int last_key)
      : pool_(pool),
        pages_(pages),
        next_(first + static_cast<int>(threadIdx.x) % kWarpLanes / 4),
        last_(last_key) {
    find_pages();
  }

  /// The first round's keys, after which `take` may follow.
  __device__ void load() {
#pragma unroll
    for (int i = 0; i < 2; ++i) keys_[i].load(pool_, found_[i], key(i), static_cast<int>(threadIdx.x) % 4);
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
  [[nodiscard]] __device__ int key(int i) const { return min(next_ + 8 * i, last_); }
  __device__ void find_pages() {
#pragma unroll
    for (int i = 0; i < 2; ++i) found_[i] = pages_[key(i) >> pool_.log2_rows];
  }

  const KeyPages& pool_;
  const PageId* pages_;
  int next_, last_;
  PageId found_[2];
  KeyGroup keys_[2];
};

/// By a warp: scores of 16 keys. Lanes 4 g and 4 g + 1 get those of keys g and g + 8.
__device__ float score_keys(const KeyGroup (&keys)[2], const ScoreSpace& space) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpLanes, group = lane / 4, quad = lane % 4;
  std::uint32_t multipliers[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) multipliers[i] = keys[i].multiplier(quad);
  float products[kHeadTiles][4] = {};
#pragma unroll
  for (int step = 0; step < kSliceSteps; ++step) {
    std::uint32_t upper[2], lower[2];
    weight_operand<WeightFormat::kFp4>(keys[0].codes, step, multipliers[0], upper);
    weight_operand<WeightFormat::kFp4>(keys[1].codes, step, multipliers[1], lower);
#pragma unroll
    for (int tile = 0; tile < kHeadTiles; ++tile) {
      const uint2 b = space.operand[step][tile * kTileTokens + group][quad];
      ptx::mma_16x8x16(products[tile], upper[0], lower[0], upper[1], lower[1], b.x, b.y);
    }
  }
  // sum_h w_h relu(product_h), over the lane's heads in ascending order, then over the quad as (0 + 1) + (2 +
  // 3).
  float sums[2] = {};
#pragma unroll
  for (int head = 0; head < kHeads / 4; ++head) {
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

/// By the whole block: keys [begin, end) of query `row`. What the first keys wait for is under way while the
/// query is prepared.
template <int kThreads>
__device__ void score_split(const ScoreArgs& args, std::int64_t row, int sequence, int begin, int end,
                            ScoreSpace& space) {
  const int warp = static_cast<int>(threadIdx.x) / kWarpLanes,
            lane = static_cast<int>(threadIdx.x) % kWarpLanes;
  const int limit = args.capacity - kRoundKeys<kThreads>;
  const bool may_fill = end - begin > args.capacity;  // else all fit, and warps need not meet
  KeyStream<kThreads> stream(args.pool, args.batch.sequences[sequence].pages, begin + warp * kWarpKeys,
                             end - 1);
  prepare_query<kThreads>(args.inputs, row, space.query, space.weights);
  stream.load();
  __syncthreads();
  spread_query<kThreads>(space);
  for (int first = begin; first < end; first += kRoundKeys<kThreads>) {
    if (may_fill) {
      __syncthreads();
      if (space.count > limit) {  // the same for all threads: nothing changes it before the next barrier
        const int count = space.count, most = args.top_k + (limit - args.top_k) / 4;
        const Candidate bound =
            bound_of_best<kThreads>(space.candidates, count, args.top_k, most, space.selection);
        const int kept = drop_below<kThreads>(bound, space.candidates, count, space.selection);
        if (threadIdx.x == 0) {
          space.count = kept;
          space.threshold = score_of(bound);
        }
      }
      __syncthreads();
    }
    const int tile = first + warp * kWarpKeys;
    if (tile < end) {
      KeyGroup keys[2];
      stream.take(keys);
      const float score = score_keys(keys, space);
      const int key = tile + lane / 4 + lane % 2 * 8;
      const bool wanted = lane % 4 < 2 && key < end && !(score <= space.threshold);
      const int to = append_position(wanted, &space.count);
      if (wanted) space.candidates[to] = candidate(score, key);
    }
  }
  __syncthreads();
}

/// Grid: (rows, splits of their keys).
template <int kThreads>
__global__ void __launch_bounds__(kThreads)
    score_kernel(const __grid_constant__ ScoreArgs args, NextAtOnce order) {
  extern __shared__ __align__(16) std::byte dynamic[];
  auto& space = *reinterpret_cast<ScoreSpace*>(dynamic);
  order.launch_next();
  ptx::wait_for_previous_kernel();
  const std::int64_t row = blockIdx.x;
  const int split = static_cast<int>(blockIdx.y), splits = static_cast<int>(gridDim.y);
  const int visible = num_visible(args.batch.positions[row]), sequence = args.batch.sequence_of[row];
  std::int32_t* const selected = args.selected + row * args.selected_stride;
  if (visible <= args.top_k) {
    if (split == 0) write_all<kThreads>(visible, selected, args.top_k);
    return;
  }
  const int rounds = (visible + kRoundKeys<kThreads> - 1) / kRoundKeys<kThreads>;
  const int each =
      kRoundKeys<kThreads> * max(kMinSplitKeys / kRoundKeys<kThreads>, (rounds + splits - 1) / splits);
  const int begin = min(visible, each * split), end = min(visible, begin + each);
  const bool alone = each >= visible;  // the first split has all keys
  if (alone && split != 0) return;
  if (threadIdx.x == 0) {
    space.count = 0;
    space.threshold = __uint_as_float(0x7FC00000u);
  }
  if (begin < end) {
    score_split<kThreads>(args, row, sequence, begin, end, space);
  } else {
    __syncthreads();
  }

  int count = space.count;
  const Candidate bound = count > args.top_k ? bound_of_best<kThreads>(space.candidates, count, args.top_k,
                                                                       args.top_k, space.selection)
                                             : 0;
  const std::int64_t list = row * splits + split;
  if (alone) {
    write_ascending<kThreads>(bound, space.candidates, count, visible,
                              reinterpret_cast<std::uint32_t*>(space.query), kQueryBytes / 4, selected,
                              args.top_k, space.selection);
    if (splits > 1 && threadIdx.x == 0) args.lists.counts[list] = kDone;
    return;
  }
  if (bound != 0) count = drop_below<kThreads>(bound, space.candidates, count, space.selection);
  for (int i = static_cast<int>(threadIdx.x); i < count; i += kThreads)
    args.lists.candidates[list * args.top_k + i] = space.candidates[i];
  if (threadIdx.x == 0) args.lists.counts[list] = count;
}

/// Grid: rows.
__global__ void __launch_bounds__(kMergeThreads)
    merge_kernel(const __grid_constant__ MergeArgs args, NextAtOnce order) {
  extern __shared__ __align__(16) std::byte dynamic[];
  auto& space = *reinterpret_cast<MergeSpace*>(dynamic);
  order.launch_next();
  ptx::wait_for_previous_kernel();
  const std::int64_t row = blockIdx.x;
  if (threadIdx.x == 0) space.count = 0;
  const int visible = num_visible(args.batch.positions[row]);
  if (visible <= args.top_k || args.lists.counts[row * args.num_splits] == kDone) return;  // selected already
  __syncthreads();
  gather_lists(args, row, 0, 1, space);
  __syncthreads();
  const int count = space.count;
  const Candidate bound =
      count > args.top_k
          ? bound_of_best<kMergeThreads>(space.candidates, count, args.top_k, args.top_k, space.selection)
          : 0;
  write_ascending<kMergeThreads>(bound, space.candidates, count, visible, space.bitmap, kBitmapWords,
                                 args.selected + row * args.selected_stride, args.top_k, space.selection);
}

int num_splits_of(std::int64_t num_rows, std::int64_t num_sms, std::int64_t top_k) {
  const std::int64_t most = std::min(kMaxWaves * num_sms / num_rows, kMergeCapacity / top_k);
  return static_cast<int>(std::max<std::int64_t>(1, most));
}

template <int kThreads>
void launch_scores(ScoreArgs args, std::int64_t num_rows, int num_splits, const CudaContext& context) {
  args.capacity =
      static_cast<int>(std::min(4 * std::int64_t{args.top_k}, kMaxCandidates)) + kRoundKeys<kThreads>;
  launch_kernel(
      "indexer: scores", score_kernel<kThreads>,
      {.grid = dim3(static_cast<unsigned>(num_rows), static_cast<unsigned>(num_splits)),
       .threads = kThreads,
       .shared_bytes = static_cast<std::int64_t>(sizeof(ScoreSpace) + sizeof(Candidate) * args.capacity)},
      context.stream, args);
}

void check_args(const IndexerArgs& args, const CudaContext& context) {
  const std::int64_t num_rows = args.q.extent(0);
  BALEEN_CHECK_LE(args.first_row + num_rows, context.batch.num_rows);
  BALEEN_CHECK(args.precision == Precision::kReleased && args.keys.format.precision == Precision::kReleased);
  BALEEN_CHECK(args.ratio == 4 && args.hadamard && args.blocks.size == 0);
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

}  // namespace

std::int64_t indexer_scratch_bytes(std::int64_t max_rows, std::int64_t top_k, int num_sms) {
  const std::int64_t lists =
      std::min(kMaxWaves * num_sms, max_rows * std::max<std::int64_t>(1, kMergeCapacity / top_k));
  return Arena::bytes_for<Candidate>(lists * top_k) + Arena::bytes_for<std::int32_t>(lists);
}

void indexer(const IndexerArgs& args, CudaContext& context) {
  check_args(args, context);
  const std::int64_t num_rows = args.q.extent(0), num_heads = args.q.extent(1),
                     top_k = args.selected.extent(1);
  if (num_rows == 0) return;
  const DeviceBatch batch = rows_of(context.batch, args.first_row, num_rows);
  const int num_splits = num_splits_of(num_rows, context.num_sms, top_k);
  const ScratchScope scope(context.scratch);
  SplitLists lists{};
  if (num_splits > 1) {
    lists.candidates = context.scratch.allocate<Candidate>(num_rows * num_splits * top_k);
    lists.counts = context.scratch.allocate<std::int32_t>(num_rows * num_splits);
  }
  const ScoreArgs scoring{
      .inputs = {.q = reinterpret_cast<const __nv_bfloat16*>(args.q.bf16().data()),
                 .row_stride = args.q.stride(0),
                 .head_stride = args.q.stride(1),
                 .head_weights = reinterpret_cast<const __nv_bfloat16*>(args.head_weights.bf16().data()),
                 .weight_stride = args.head_weights.stride(0),
                 .cosine = args.cosine.f32().data(),
                 .sine = args.sine.f32().data(),
                 .cosine_stride = args.cosine.stride(0),
                 .sine_stride = args.sine.stride(0),
                 .num_heads = static_cast<int>(num_heads),
                 .num_pairs = static_cast<int>(args.cosine.extent(1)),
                 .weight_factor =
                     static_cast<float>(1.0 / std::sqrt(double{kDim} * static_cast<double>(num_heads)))},
      .pool = {.base = args.keys.base,
               .page_stride_bytes = static_cast<std::uint32_t>(args.keys.page_stride_bytes),
               .log2_rows = std::countr_zero(static_cast<unsigned>(args.keys.rows_per_page))},
      .batch = batch,
      .selected = args.selected.data(),
      .selected_stride = args.selected.stride(0),
      .lists = lists,
      .top_k = static_cast<int>(top_k),
      .capacity = 0};
  (num_rows <= context.num_sms ? launch_scores<kFewThreads>
                               : launch_scores<kManyThreads>)(scoring, num_rows, num_splits, context);
  if (num_splits == 1) return;
  launch_kernel("indexer: merging", merge_kernel,
                {.grid = dim3(static_cast<unsigned>(num_rows)),
                 .threads = kMergeThreads,
                 .shared_bytes =
                     static_cast<std::int64_t>(sizeof(MergeSpace) + sizeof(Candidate) * num_splits * top_k)},
                context.stream,
                MergeArgs{.lists = lists,
                          .batch = batch,
                          .selected = args.selected.data(),
                          .selected_stride = args.selected.stride(0),
                          .top_k = static_cast<int>(top_k),
                          .num_splits = num_splits});
}

}  // namespace baleen::sm80
