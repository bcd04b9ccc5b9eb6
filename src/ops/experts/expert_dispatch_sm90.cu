#include "base/check.h"
#include "cuda/bf16_vector.cuh"
#include "cuda/kernel_launch.h"
#include "cuda/ptx/grid_dependency.h"
#include "cuda/row_quantise.cuh"
#include "cuda/warp_reduce.cuh"
#include "ops/experts/expert_dispatch.h"

#include <algorithm>

namespace baleen {

std::int64_t DispatchExtents::first_shared_row() const {
  const std::int64_t experts = std::min(num_slots(), num_experts);  // that are visited at most
  return (num_slots() + (kRowAlignment - 1) * experts + kRowAlignment - 1) / kRowAlignment * kRowAlignment;
}

std::int64_t DispatchExtents::max_tiles() const {
  const std::int64_t routed = std::min(num_slots(), num_experts + num_slots() / tile_tokens);
  return routed + (has_shared ? (num_tokens + tile_tokens - 1) / tile_tokens : 0);
}

namespace {

constexpr int kThreads = 512;  // at least the number of experts: one counts for one expert
constexpr int kWarps = kThreads / kWarpLanes;
constexpr int kBlocksPerSm = 2;    // each counts all ids anew
constexpr int kLoadsInFlight = 4;  // blocks of 128 values that a warp has under way

struct DispatchParams {
  const Bf16Bits* x;
  Fp8Rows x_fp8;
  const std::int32_t* ids;
  const float* weights;
  std::int64_t width;
  std::int32_t num_tokens;
  std::int32_t num_selected;
  std::int32_t num_experts;
  std::int32_t tokens_per_block;
  std::int32_t tile_tokens;
  std::int32_t first_shared_row;
  bool has_shared;
  DispatchPlan plan;
  Fp8Rows rows;
};

/// Sum of `value` over the threads before this one. `warp_sums`: kWarps values of shared memory, free again after the
/// next barrier of the block.
__device__ int block_exclusive_sum(int value, int* warp_sums) {
  const int warp = threadIdx.x / kWarpLanes, lane = threadIdx.x % kWarpLanes;
  const int inclusive = warp_inclusive_sum(value);
  if (lane == kWarpLanes - 1) warp_sums[warp] = inclusive;
  __syncthreads();
  int before = inclusive - value;
  for (int i = 0; i < warp; ++i) before += warp_sums[i];
  return before;
}

/// `count` rows from `first_row` on, cut into tiles of nearly the same size.
__device__ void write_tiles(TokenTile* to, int expert, int first_row, int count, int tile_tokens) {
  const int num_tiles = (count + tile_tokens - 1) / tile_tokens;
  const std::int64_t units = (count + kRowAlignment - 1) / kRowAlignment;
  const auto cut = [&](int i) { return min(count, kRowAlignment * static_cast<int>(units * i / num_tiles)); };
  for (int i = 0; i < num_tiles; ++i) to[i] = {expert, first_row + cut(i), cut(i + 1) - cut(i), 0};
}

struct QuantisedWord {
  std::uint32_t codes;
  float scale;
};

/// This lane's four values of block `block` of token `token`.
__device__ QuantisedWord load_word(const DispatchParams& p, std::int64_t token, int block) {
  const int lane = threadIdx.x % kWarpLanes;
  const std::int64_t column = static_cast<std::int64_t>(block) * kFp8RowBlock + 4 * lane;
  if (p.x_fp8.codes != nullptr) {
    return {*reinterpret_cast<const std::uint32_t*>(p.x_fp8.codes + token * p.width + column),
            p.x_fp8.scales[block * p.x_fp8.scale_stride + token]};
  }
  const uint2 words = *reinterpret_cast<const uint2*>(p.x + token * p.width + column);
  const float values[4] = {bf16_low(words.x), bf16_high(words.x), bf16_low(words.y), bf16_high(words.y)};
  const Fp8Piece<4> piece = quantise_fp8_block(values);
  return {piece.codes[0], piece.scale};
}

/// A block plans for its own tokens: it counts all visits, and those of tokens before its own.
__global__ void __launch_bounds__(kThreads) dispatch_kernel(const DispatchParams p) {
  extern __shared__ int shared[];
  __shared__ int warp_sums[kWarps];
  int* const visits = shared;  // [E]
  int* const visits_before =
      visits + p.num_experts;  // [E]: of earlier blocks' tokens; then the first free row
  int* const own_ids = visits_before + p.num_experts;
  int* const own_rows = own_ids + p.tokens_per_block * p.num_selected;
  const int thread = threadIdx.x, warp = thread / kWarpLanes, lane = thread % kWarpLanes;
  const int first_token = blockIdx.x * p.tokens_per_block;
  const int num_tokens = min(p.tokens_per_block, p.num_tokens - first_token);
  const int num_slots = p.num_tokens * p.num_selected;
  const int first_slot = first_token * p.num_selected;
  const int num_own = num_tokens * p.num_selected;
  for (int expert = thread; expert < p.num_experts; expert += kThreads) {
    visits[expert] = 0;
    visits_before[expert] = 0;
  }
  __syncthreads();
  ptx::launch_next_kernel();
  ptx::wait_for_previous_kernel();

  for (int slot = thread; slot < num_slots; slot += kThreads) {
    const int id = p.ids[slot];
    if (id < 0) continue;
    atomicAdd(&visits[id], 1);
    if (slot < first_slot) atomicAdd(&visits_before[id], 1);
  }
  for (int i = thread; i < num_own; i += kThreads) own_ids[i] = p.ids[first_slot + i];
  __syncthreads();
  const int count = thread < p.num_experts ? visits[thread] : 0;
  const int first_row =
      block_exclusive_sum((count + kRowAlignment - 1) / kRowAlignment * kRowAlignment, warp_sums);
  if (thread < p.num_experts) visits_before[thread] += first_row;
  __syncthreads();

  if (blockIdx.x == 0) {
    const int shared_tiles = p.has_shared ? (p.num_tokens + p.tile_tokens - 1) / p.tile_tokens : 0;
    const int tiles = (count + p.tile_tokens - 1) / p.tile_tokens;
    const int first_tile = shared_tiles + block_exclusive_sum(tiles, warp_sums);
    if (thread < p.num_experts) {
      write_tiles(p.plan.tiles + first_tile, thread, first_row, count, p.tile_tokens);
    }
    if (thread == kThreads - 1) {
      *p.plan.num_tiles = first_tile + tiles;
      if (p.has_shared)
        write_tiles(p.plan.tiles, p.num_experts, p.first_shared_row, p.num_tokens, p.tile_tokens);
    }
  }
  for (std::int64_t i = blockIdx.x * kThreads + thread; i < p.plan.num_counters;
       i += static_cast<std::int64_t>(gridDim.x) * kThreads) {
    p.plan.counters[i] = 0;
  }
  for (int i = thread; i < num_own; i += kThreads) {
    const int id = own_ids[i];
    int row = -1;
    if (id >= 0) {
      row = visits_before[id];
      for (int earlier = 0; earlier < i; ++earlier) row += own_ids[earlier] == id ? 1 : 0;
      p.plan.row_weight[row] = p.weights[first_slot + i];
    }
    own_rows[i] = row;
    p.plan.row_of_slot[first_slot + i] = row;
  }
  if (p.has_shared) {
    for (int i = thread; i < num_tokens; i += kThreads)
      p.plan.row_weight[p.first_shared_row + first_token + i] = 1.0F;
  }
  __syncthreads();
  if (p.rows.codes == nullptr) return;

  const int blocks = static_cast<int>(p.width / kFp8RowBlock);
  const int to_word = product_word(lane);
  const auto store = [&](const QuantisedWord& word, std::int64_t row, int block) {
    reinterpret_cast<std::uint32_t*>(p.rows.codes + row * p.width)[block * kWarpLanes + to_word] = word.codes;
    if (lane == 0) p.rows.scales[block * p.rows.scale_stride + row] = word.scale;
  };
  for (int item = warp * kLoadsInFlight; item < num_tokens * blocks; item += kWarps * kLoadsInFlight) {
    QuantisedWord words[kLoadsInFlight];
#pragma unroll
    for (int i = 0; i < kLoadsInFlight; ++i) {
      const int one = min(item + i, num_tokens * blocks - 1);
      words[i] = load_word(p, first_token + one / blocks, one % blocks);
    }
#pragma unroll
    for (int i = 0; i < kLoadsInFlight; ++i) {
      const int token = (item + i) / blocks, block = (item + i) % blocks;
      if (token >= num_tokens) break;
      for (int slot = 0; slot < p.num_selected; ++slot) {
        const int row = own_rows[token * p.num_selected + slot];
        if (row >= 0) store(words[i], row, block);
      }
      if (p.has_shared) store(words[i], p.first_shared_row + first_token + token, block);
    }
  }
}

}  // namespace

void dispatch_experts_sm90(const ExpertsArgs& args, const DispatchExtents& extents, const DispatchPlan& plan,
                           const Fp8Rows& rows, CudaContext& context) {
  BALEEN_CHECK(extents.num_experts <= kThreads);
  const auto num_tokens = static_cast<int>(extents.num_tokens);
  const int tokens_per_block =
      (num_tokens + kBlocksPerSm * context.num_sms - 1) / (kBlocksPerSm * context.num_sms);
  const DispatchParams params{.x = args.x.bf16().data(),
                              .x_fp8 = args.x_fp8,
                              .ids = args.ids.data(),
                              .weights = args.weights.data(),
                              .width = args.x.extent(1),
                              .num_tokens = num_tokens,
                              .num_selected = static_cast<int>(extents.num_selected),
                              .num_experts = static_cast<int>(extents.num_experts),
                              .tokens_per_block = tokens_per_block,
                              .tile_tokens = extents.tile_tokens,
                              .first_shared_row = static_cast<int>(extents.first_shared_row()),
                              .has_shared = extents.has_shared,
                              .plan = plan,
                              .rows = rows};
  const std::int64_t shared_ints =
      2 * extents.num_experts + 2 * static_cast<std::int64_t>(tokens_per_block) * extents.num_selected;
  launch_kernel("dispatching to experts", dispatch_kernel,
                {.grid = dim3(static_cast<unsigned>((num_tokens + tokens_per_block - 1) / tokens_per_block)),
                 .threads = kThreads,
                 .shared_bytes = shared_ints * static_cast<std::int64_t>(sizeof(int))},
                context.stream, params);
}

}  // namespace baleen
