// FP8 products for few tokens: bound by the bytes of the weights.
//
// A cluster owns a tile of 128 weight rows and up to 64 tokens, each of its blocks a segment of the inputs. In a block
// one warp keeps as many slices in flight as shared memory holds; the weights among them do not wait for the previous
// kernel. Two warpgroups multiply, 64 rows each. At the end every block sends each other one the rows that the other is to
// finish, and adds the segments of its own rows in order.
//
//        K ──►  segment 0     segment 1     segment 2     segment 3
//    128 rows  ┌───────────┬─────────────┬─────────────┬────────────┐        block r of the cluster finishes
//    of W      │ block 0   │  block 1    │  block 2    │  block 3   │  ───►  rows 32 r .. 32 r + 31
//              └───────────┴─────────────┴─────────────┴────────────┘

#include <algorithm>

#include "cuda/bf16_vector.cuh"
#include "cuda/kernel_launch.h"
#include "cuda/ptx/bulk_copy.h"
#include "cuda/ptx/cluster.h"
#include "cuda/ptx/grid_dependency.h"
#include "cuda/ptx/mbarrier.h"
#include "cuda/ptx/tma.h"
#include "ops/linear/fp8_products.h"
#include "ops/linear/fp8_slice.cuh"

namespace baleen {
namespace {

constexpr int kConsumerWarps = 8;
constexpr int kThreads = 32 * (kConsumerWarps + 1);
constexpr int kPartialPad =
    4;  ///< floats after the rows of a token: spreads the tokens of a warp over the banks
constexpr int kSwizzleAlignment = 1024;

/// Shared memory of a block for tiles of `kTokens` tokens.
template <int kTokens>
struct FewShape {
  static constexpr int kTokenTileBytes = kTokens * kSliceInputs;
  static constexpr int kStageBytes = kWeightTileBytes + kTokenTileBytes + kTokens * 4;
  /// Two blocks share a multiprocessor (also blocks of this kernel and of the next).
  static constexpr int kStages = kTokens <= 16 ? 5 : 4;
  static constexpr int kSlices = kStages * kStageBytes;

  /// Sums of `segments` blocks for the rows that one block finishes: [segment][token][row of the block].
  static constexpr int row_stride(int segments) { return kTileRows / segments + kPartialPad; }
  static constexpr int partial_floats(int segments) { return segments * kTokens * row_stride(segments); }

  static std::int64_t bytes(int segments, int num_slices) {
    const int longest_segment = (num_slices + segments - 1) / segments;
    return kSwizzleAlignment + kSlices + 4 * (partial_floats(segments) + longest_segment) + 2 * 8 * kStages;
  }
};

template <int kTokens>
struct FewMemory {
  using Shape = FewShape<kTokens>;
  std::uint8_t* weights;  ///< [stage] tiles
  std::uint8_t* tokens;   ///< [stage] tiles
  float* token_scales;    ///< [stage][kTokens]
  float* partial;
  std::uint64_t* full;   ///< [stage]
  std::uint64_t* empty;  ///< [stage]
  float* weight_scales;  ///< [slice of the segment]

  __device__ FewMemory(std::uint8_t* start, int segments) {
    weights = start;
    tokens = weights + Shape::kStages * kWeightTileBytes;
    token_scales = reinterpret_cast<float*>(tokens + Shape::kStages * Shape::kTokenTileBytes);
    partial = token_scales + Shape::kStages * kTokens;
    full = reinterpret_cast<std::uint64_t*>(partial + Shape::partial_floats(segments));
    empty = full + Shape::kStages;
    weight_scales = reinterpret_cast<float*>(empty + Shape::kStages);
  }
};

/// A block's share of the work.
struct FewTask {
  int product;
  int first_output;  ///< row of the weight
  int first_token;
  int first_slice;
  int num_slices;
  int segments;
  int segment;
};

__device__ FewTask task_of(const Fp8Products& all, int tokens_per_tile) {
  const int segments = all.num_segments;
  const int token_tiles = (all.num_tokens + tokens_per_tile - 1) / tokens_per_tile;
  const int cluster = static_cast<int>(blockIdx.x) / segments;
  const int tile = cluster / token_tiles;
  FewTask task;
  task.segments = segments;
  task.segment = static_cast<int>(ptx::cluster_rank());
  task.product = product_of_tile(all, tile);
  task.first_output = (tile - all.products[task.product].first_tile) * kTileRows;
  task.first_token = cluster % token_tiles * tokens_per_tile;
  task.first_slice = segment_begin(task.segment, segments, all.num_slices);
  task.num_slices = segment_begin(task.segment + 1, segments, all.num_slices) - task.first_slice;
  return task;
}

/// One thread: keeps the stages full.
template <int kTokens>
__device__ void load_slices(const Fp8Products& all, const FewTask& task, const FewMemory<kTokens>& memory) {
  using Shape = FewShape<kTokens>;
  const auto row = static_cast<std::int64_t>(task.first_token);
  const auto scale_bytes =
      static_cast<std::uint32_t>(4 * min(static_cast<std::int64_t>(kTokens), all.scale_stride - row));
  const std::uint32_t bytes = kWeightTileBytes + Shape::kTokenTileBytes + scale_bytes;
  const CUtensorMap& weight_map = all.weights[task.product];

  const auto load_weights = [&](int slice, int stage) {
    ptx::mbarrier_arrive_expect(&memory.full[stage], bytes);
    ptx::tma_load(memory.weights + stage * kWeightTileBytes, weight_map, &memory.full[stage],
                  (task.first_slice + slice) * kSliceInputs, task.first_output, ptx::L2Hint::kEvictFirst);
  };
  const auto load_tokens = [&](int slice, int stage) {
    const int input = (task.first_slice + slice) * kSliceInputs;
    ptx::tma_load(memory.tokens + stage * Shape::kTokenTileBytes, all.tokens, &memory.full[stage], input,
                  task.first_token, ptx::L2Hint::kEvictLast);
    ptx::bulk_load(memory.token_scales + stage * kTokens,
                   all.token_scales + (task.first_slice + slice) * all.scale_stride + row, scale_bytes,
                   &memory.full[stage]);
  };

  const int at_once = min(Shape::kStages, task.num_slices);
  for (int slice = 0; slice < at_once; ++slice) load_weights(slice, slice);
  ptx::wait_for_previous_kernel();
  for (int slice = 0; slice < at_once; ++slice) load_tokens(slice, slice);
  for (int slice = at_once; slice < task.num_slices; ++slice) {
    const int stage = slice % Shape::kStages;
    ptx::mbarrier_wait(&memory.empty[stage], (slice / Shape::kStages + 1) % 2);
    load_weights(slice, stage);
    load_tokens(slice, stage);
  }
}

/// The warpgroup's 64 rows of the segment's sum.
template <int kTokens>
__device__ void multiply_slices(const FewTask& task, const FewMemory<kTokens>& memory, int warpgroup,
                                float (&sum)[kTokens / 2]) {
  using Shape = FewShape<kTokens>;
  float slice_sum[kTokens / 2];
#pragma unroll
  for (int i = 0; i < kTokens / 2; ++i) sum[i] = 0.0F;
  for (int slice = 0; slice < task.num_slices; ++slice) {
    const int stage = slice % Shape::kStages;
    ptx::mbarrier_wait(&memory.full[stage], slice / Shape::kStages % 2);
    start_slice<kTokens>(
        slice_sum, memory.weights + stage * kWeightTileBytes + warpgroup * kWarpgroupRows * kSliceInputs,
        memory.tokens + stage * Shape::kTokenTileBytes);
    ptx::wgmma_wait<0>();
    add_slice<kTokens>(sum, slice_sum, memory.token_scales + stage * kTokens, memory.weight_scales[slice]);
    __syncwarp();
    if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(&memory.empty[stage]);
  }
}

/// Every row of the segment's sum to the block that finishes it.
template <int kTokens>
__device__ void send_sums(const FewTask& task, const FewMemory<kTokens>& memory, int num_tokens,
                          const float (&sum)[kTokens / 2]) {
  const int warp = static_cast<int>(threadIdx.x / 32), lane = static_cast<int>(threadIdx.x % 32);
  constexpr int kWarpRows = 16;
  const int rows_each = kTileRows / task.segments;
  const int first_row = warp * kWarpRows % rows_each + lane / 4;
  const auto owner = static_cast<std::uint32_t>(warp * kWarpRows / rows_each);
  const int row_stride = FewShape<kTokens>::row_stride(task.segments);
  float* to = ptx::in_block(memory.partial, owner) + task.segment * kTokens * row_stride + first_row;
#pragma unroll
  for (int i = 0; i < kTokens / 2; ++i) {
    const int token = 8 * (i / 4) + 2 * (lane % 4) + i % 2;
    const int row = i % 4 < 2 ? 0 : 8;
    if (token < num_tokens) to[token * row_stride + row] = sum[i];
  }
}

/// Adds the segments of this block's rows and writes them, eight outputs of a token at a time.
template <int kTokens>
__device__ void finish_rows(const Fp8Products& all, const FewTask& task, const FewMemory<kTokens>& memory,
                            int num_tokens) {
  constexpr int kVector = 8;
  const Fp8Product& product = all.products[task.product];
  const int rows = kTileRows / task.segments;
  const int row_stride = FewShape<kTokens>::row_stride(task.segments);
  const int vectors = rows / kVector;
  for (int i = static_cast<int>(threadIdx.x); i < num_tokens * vectors; i += kThreads) {
    const int token = i / vectors, row = i % vectors * kVector;
    const int output = task.first_output + task.segment * rows + row;
    if (output >= product.num_outputs) continue;
    float values[kVector];
    const float* from = memory.partial + token * row_stride + row;
    for (int segment = 0; segment < task.segments; ++segment, from += kTokens * row_stride) {
#pragma unroll
      for (int j = 0; j < kVector; ++j) values[j] = segment == 0 ? from[j] : values[j] + from[j];
    }
    const std::int64_t at = (task.first_token + token) * product.y_stride + output;
    if (product.y_f32) {
      auto* y = reinterpret_cast<float4*>(reinterpret_cast<float*>(product.y) + at);
      y[0] = {values[0], values[1], values[2], values[3]};
      y[1] = {values[4], values[5], values[6], values[7]};
    } else {
      *reinterpret_cast<uint4*>(reinterpret_cast<__nv_bfloat16*>(product.y) + at) = pack_bf16(values);
    }
  }
}

template <int kTokens>
__global__ void __launch_bounds__(kThreads) fp8_products_few_kernel(const __grid_constant__ Fp8Products all) {
  using Shape = FewShape<kTokens>;
  extern __shared__ std::uint8_t shared[];
  const std::uint32_t misaligned = ptx::shared_address(shared) % kSwizzleAlignment;
  const FewMemory<kTokens> memory(shared + (kSwizzleAlignment - misaligned) % kSwizzleAlignment,
                                  all.num_segments);
  const FewTask task = task_of(all, kTokens);
  const int warp = static_cast<int>(threadIdx.x / 32);

  ptx::launch_next_kernel();
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < Shape::kStages; ++stage) {
      ptx::mbarrier_init(&memory.full[stage], 1);
      ptx::mbarrier_init(&memory.empty[stage], kConsumerWarps);
    }
    ptx::fence_mbarrier_init();
  }
  const float* weight_scales = all.products[task.product].weight_scales +
                               static_cast<std::int64_t>(task.first_output / kTileRows) * all.num_slices +
                               task.first_slice;
  for (int i = static_cast<int>(threadIdx.x); i < task.num_slices; i += kThreads) {
    memory.weight_scales[i] = weight_scales[i];
  }
  __syncthreads();
  ptx::cluster_arrive();  // every block of the cluster runs: waited for before its memory is written

  const int num_tokens = min(kTokens, all.num_tokens - task.first_token);
  if (warp == kConsumerWarps) {
    if (threadIdx.x % 32 == 0) load_slices<kTokens>(all, task, memory);
    __syncwarp();
    ptx::cluster_wait();
  } else {
    float sum[kTokens / 2];
    multiply_slices<kTokens>(task, memory, warp / 4, sum);
    ptx::cluster_wait();
    send_sums<kTokens>(task, memory, num_tokens, sum);
  }
  ptx::wait_for_previous_kernel();  // earlier readers of y
  ptx::cluster_sync();
  finish_rows<kTokens>(all, task, memory, num_tokens);
}

template <int kTokens>
void launch_few(std::span<const LinearOutput> outputs, const Fp8Rows& x, std::int64_t num_tokens,
                CudaContext& context) {
  const Fp8Products all = describe_products(outputs, x, num_tokens, kTokens);
  const auto token_tiles = static_cast<unsigned>((num_tokens + kTokens - 1) / kTokens);
  const LaunchShape shape{.grid = dim3(static_cast<unsigned>(all.num_tiles) * token_tiles *
                                       static_cast<unsigned>(all.num_segments)),
                          .threads = kThreads,
                          .shared_bytes = FewShape<kTokens>::bytes(all.num_segments, all.num_slices),
                          .cluster = all.num_segments};
  launch_kernel("FP8 products for few tokens", fp8_products_few_kernel<kTokens>, shape, context.stream, all);
}

}  // namespace

void fp8_products_few(std::span<const LinearOutput> outputs, const Fp8Rows& x, std::int64_t num_tokens,
                      CudaContext& context) {
  if (num_tokens <= 8) {
    launch_few<8>(outputs, x, num_tokens, context);
  } else if (num_tokens <= 16) {
    launch_few<16>(outputs, x, num_tokens, context);
  } else if (num_tokens <= 32) {
    launch_few<32>(outputs, x, num_tokens, context);
  } else {
    launch_few<64>(outputs, x, num_tokens, context);
  }
}

}  // namespace baleen
