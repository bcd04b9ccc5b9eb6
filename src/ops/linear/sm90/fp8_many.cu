// FP8 products for many tokens: bound by the tensor cores.
//
// Blocks stay and take tile after tile: 128 weight rows times 256 tokens (128 where there are few tiles). A
// cluster of two works on two neighbouring tiles of weights and the same tokens; each loads one half of the
// tokens, for both. In a block one warp loads, and two warpgroups multiply, up to two pieces of 64 tokens
// each: tokens are the rows of D here, so that a thread has few of their scales and one of the weights'.
//
//                             tokens 0 .. 127 (loaded by block 0)   128 .. 255 (by block 1)
//                            ┌───────────────────────────────────┬────────────────────────┐
//    weight rows 0 .. 127    │ block 0: warpgroup 0              │ warpgroup 1            │
//                            ├───────────────────────────────────┼────────────────────────┤
//    weight rows 128 .. 255  │ block 1: warpgroup 0              │ warpgroup 1            │
//                            └───────────────────────────────────┴────────────────────────┘
//
// A warpgroup has registers for the sums of two pieces and one product, which it waits for and adds: the
// tensor core is kept busy by the other one meanwhile.

#include <algorithm>

#include "cuda/bf16_vector.cuh"
#include "cuda/kernel_launch.h"
#include "cuda/pipeline_ring.cuh"
#include "cuda/ptx/bulk_copy.h"
#include "cuda/ptx/cluster.h"
#include "cuda/ptx/grid_dependency.h"
#include "cuda/ptx/setmaxnreg.h"
#include "cuda/ptx/stmatrix.h"
#include "cuda/ptx/tma.h"
#include "ops/linear/sm90/fp8_products.h"
#include "ops/linear/sm90/fp8_slice.cuh"

namespace baleen::sm90 {
namespace {

using namespace linear_kernels;

constexpr int kTileRows = kSliceInputs;
constexpr int kTileBytes = kTileRows * kSliceInputs;  ///< bytes of a tile of weights
constexpr int kCluster = 2;
constexpr int kWarpgroup = 128;
constexpr int kConsumers = 2;
constexpr int kConsumerWarps = kConsumers * kWarpgroup / 32;
constexpr int kThreads = kWarpgroup * (kConsumers + 1);
constexpr int kPieceTokens = kWarpgroupRows;
constexpr int kPieceBytes = kPieceTokens * kSliceInputs;
constexpr int kPieceSums = kTileRows / 2;  ///< sums that a thread has
constexpr int kSwizzleAlignment = 1024;
constexpr int kResultOutputs = 64;  ///< that a warp rearranges at once, of 16 tokens
constexpr int kResultTokens = 16;
constexpr int kResultRowBytes = 2 * kResultOutputs;
/// The loading warps give theirs to those that multiply. Together no more than 168 a thread, what a launch of
/// so many gets.
constexpr int kLoaderRegisters = 40, kConsumerRegisters = 232;
/// Tokens that are worked on together, so that weights and tokens in use stay in L2.
constexpr int kTokensAtOnce = 2048;

/// A block's tile.
struct ManyTask {
  int product;
  int first_output;
  int first_token;
  bool beyond;  ///< the partner's tile is the last one; this block helps to load
};

/// Shared memory of a block whose warpgroups have `kPieces` of 64 tokens.
template <int kPieces>
struct ManyMemory {
  static constexpr int kTokens = kConsumers * kPieces * kPieceTokens;
  static constexpr int kStages = kPieces == 1 ? 6 : 4;
  /// The loading thread is at most as many tiles ahead as there are stages.
  static constexpr int kTasks = kStages + 1;

  std::uint8_t weights[kStages][kTileBytes];
  std::uint8_t tokens[kStages][kTokens * kSliceInputs];
  std::uint8_t results[kConsumerWarps][kResultTokens * kResultRowBytes];
  float token_scales[kStages][kTokens];
  float weight_scale[kStages];
  ManyTask tasks[kTasks];
  RingBarriers<kStages> ring;  ///< freed by the warps of both blocks
};

/// Pairs of weight tiles times token tiles: each is a cluster's work.
template <int kPieces>
struct ManyWork {
  static constexpr int kTokens = ManyMemory<kPieces>::kTokens;
  static constexpr int kTilesAtOnce = kTokensAtOnce / kTokens;
  int weight_pairs;
  int token_tiles;

  __host__ __device__ explicit ManyWork(const Fp8Products& all)
      : weight_pairs((all.num_tiles + kCluster - 1) / kCluster),
        token_tiles((all.num_tokens + kTokens - 1) / kTokens) {}
  __host__ __device__ int size() const { return weight_pairs * token_tiles; }

  /// Pair after pair of weight tiles for a few token tiles, then the next few.
  __device__ ManyTask task(const Fp8Products& all, int index, int rank) const {
    const int pass = index / (kTilesAtOnce * weight_pairs);
    const int width = min(kTilesAtOnce, token_tiles - pass * kTilesAtOnce);
    const int within = index - pass * kTilesAtOnce * weight_pairs;
    const int tile = within / width * kCluster + rank;
    ManyTask task;
    task.product = product_of_tile(all, min(tile, all.num_tiles - 1));
    task.first_output = (tile - all.products[task.product].first_tile) * kTileRows;
    task.first_token = (pass * kTilesAtOnce + within % width) * kTokens;
    task.beyond = tile >= all.num_tiles;
    return task;
  }
};

/// One thread: keeps the stages full, and says of what tile the first slice of each is: where that is takes
/// divisions, for which those who multiply have no time.
template <int kPieces>
__device__ void load_tiles(const Fp8Products& all, ManyMemory<kPieces>& memory, int first, int step,
                           int rank) {
  using Memory = ManyMemory<kPieces>;
  constexpr auto kBothBlocks = static_cast<std::uint16_t>((1 << kCluster) - 1);
  constexpr int kLoadedTokens = Memory::kTokens / kCluster;
  RingPlace at, task_at;
  const ManyWork<kPieces> work(all);
  for (int index = first; index < work.size(); index += step, task_at.advance(Memory::kTasks)) {
    const ManyTask task = work.task(all, index, rank);
    const auto token = static_cast<std::int64_t>(task.first_token);
    const auto scale_bytes = static_cast<std::uint32_t>(
        4 * min(static_cast<std::int64_t>(Memory::kTokens), all.scale_stride - token));
    // Beyond the last tile TMA brings zeros; any scale does.
    const std::int64_t scale_row = task.beyond ? 0 : task.first_output / kSliceInputs;
    const float* weight_scales = all.products[task.product].weight_scales + scale_row * all.num_slices;
    float weight_scale = __ldg(weight_scales);
    for (int slice = 0; slice < all.num_slices; ++slice, at.advance(Memory::kStages)) {
      const float next_scale = __ldg(weight_scales + min(slice + 1, all.num_slices - 1));
      std::uint64_t* full = memory.ring.full(at);
      memory.ring.wait_empty(at);
      if (slice == 0) memory.tasks[task_at.stage] = task;
      memory.weight_scale[at.stage] = weight_scale;
      memory.ring.expect(at, kTileBytes + sizeof(memory.tokens[0]) + scale_bytes);
      ptx::tma_load_multicast(memory.tokens[at.stage] + rank * kLoadedTokens * kSliceInputs, all.tokens, full,
                              0, task.first_token + rank * kLoadedTokens, slice, kBothBlocks);
      ptx::tma_load(memory.weights[at.stage], all.weights[task.product], full, 0, task.first_output, slice);
      ptx::bulk_load(memory.token_scales[at.stage], all.token_scales + slice * all.scale_stride + token,
                     scale_bytes, full);
      weight_scale = next_scale;
    }
  }
}

/// The tile's sums of one warpgroup, whose first slice has been waited for. `first_token`: of this thread's
/// in the block's first piece; it has the eighth after it too, and the same of the second piece.
template <int kPieces>
__device__ void multiply_tile(ManyMemory<kPieces>& memory, RingPlace& at, int warpgroup, int first_token,
                              int num_slices, float (&sum)[kPieces][kPieceSums]) {
  const std::uint64_t first_tokens = slice_descriptor(memory.tokens[0] + warpgroup * kPieces * kPieceBytes);
  const std::uint64_t first_weights = slice_descriptor(memory.weights[0]);
#pragma unroll
  for (int piece = 0; piece < kPieces; ++piece) {
#pragma unroll
    for (int i = 0; i < kPieceSums; ++i) sum[piece][i] = 0.0F;
  }
#pragma unroll 1
  for (int slice = 0; slice < num_slices; ++slice) {
    const auto stage = static_cast<std::uint64_t>(at.stage);
    const std::uint64_t tokens = first_tokens + stage * (sizeof(memory.tokens[0]) / 16);
    const std::uint64_t weights = first_weights + stage * (kTileBytes / 16);
    const int read_stage = at.stage;
    const float weight_scale = memory.weight_scale[at.stage];
    const float* s_x = memory.token_scales[at.stage] + first_token;
#pragma unroll
    for (int piece = 0; piece < kPieces; ++piece) {
      float product[kPieceSums];
      start_slice<kTileRows>(product, tokens + static_cast<std::uint64_t>(piece * kPieceBytes / 16), weights);
      const float upper = s_x[piece * kPieceTokens] * weight_scale;
      const float lower = s_x[piece * kPieceTokens + 8] * weight_scale;
      if (piece == kPieces - 1) {
        at.advance(ManyMemory<kPieces>::kStages);
        if (slice + 1 < num_slices) memory.ring.wait_full(at);
      }
      ptx::wgmma_wait<0>();
      hold_slice(product);
      if (piece == kPieces - 1) {  // the stage goes back to both blocks, which load into it
        ptx::fence_proxy_async();
        __syncwarp();
        memory.ring.template release_to_cluster<kCluster>(read_stage, static_cast<int>(threadIdx.x % 32));
      }
#pragma unroll
      for (int i = 0; i < kPieceSums; ++i) {
        sum[piece][i] = fmaf(product[i], i % 4 < 2 ? upper : lower, sum[piece][i]);
      }
    }
  }
}

/// Sixteen tokens of a warp, through its part of shared memory, so that rows are written in whole lines.
/// `token`: of the tile's product, the first.
__device__ void store_bf16(const Fp8Product& product, int num_tokens, int token, int first_output,
                           std::uint8_t* results, const float (&sum)[kPieceSums]) {
  constexpr int kChunkBytes = 16, kChunkOutputs = 8, kChunks = kResultRowBytes / kChunkBytes;
  constexpr int kRowsAtOnce = 32 / kChunks;
  const int lane = static_cast<int>(threadIdx.x % 32);
  auto* y = reinterpret_cast<Bf16Bits*>(product.y);
#pragma unroll
  for (int begin = 0; begin < kTileRows; begin += kResultOutputs) {
    __syncwarp();  // what was there has been read
#pragma unroll
    for (int chunk = 0; chunk < kChunks; chunk += 2) {
      const float* pair = sum + begin / 2 + 4 * chunk;
      const std::uint32_t values[4] = {pack_bf16(pair[0], pair[1]), pack_bf16(pair[2], pair[3]),
                                       pack_bf16(pair[4], pair[5]), pack_bf16(pair[6], pair[7])};
      ptx::stmatrix_x4(results + lane % 16 * kResultRowBytes + ((chunk + lane / 16) ^ lane % 8) * kChunkBytes,
                       values);
    }
    __syncwarp();
    const int chunk = lane % kChunks, output = first_output + begin + chunk * kChunkOutputs;
#pragma unroll
    for (int first = 0; first < kResultTokens; first += kRowsAtOnce) {
      const int row = first + lane / kChunks;
      if (token + row >= num_tokens || output >= product.num_outputs) continue;
      *reinterpret_cast<uint4*>(y + (token + row) * product.y_stride + output) =
          *reinterpret_cast<const uint4*>(results + row * kResultRowBytes + (chunk ^ row % 8) * kChunkBytes);
    }
  }
}

/// Outputs kept in float32, which few layers want.
__device__ void store_f32(const Fp8Product& product, int num_tokens, int first_token, int first_output,
                          const float (&sum)[kPieceSums]) {
  const int row = static_cast<int>(threadIdx.x % 32 / 4), column = 2 * static_cast<int>(threadIdx.x % 4);
#pragma unroll
  for (int i = 0; i < kPieceSums; i += 2) {
    const int token = first_token + row + (i % 4 < 2 ? 0 : 8);
    const int output = first_output + 2 * (i - i % 4) + column;
    if (token < num_tokens && output < product.num_outputs) {
      float* y = reinterpret_cast<float*>(product.y) + token * product.y_stride + output;
      *reinterpret_cast<float2*>(y) = {sum[i], sum[i + 1]};
    }
  }
}

template <int kPieces>
__global__ void __launch_bounds__(kThreads, 1)
    fp8_products_many_kernel(const __grid_constant__ Fp8Products all, NextAtOnce order) {
  using Memory = ManyMemory<kPieces>;
  extern __shared__ std::uint8_t shared[];
  const std::uint32_t misaligned = ptx::shared_address(shared) % kSwizzleAlignment;
  auto& memory = *reinterpret_cast<Memory*>(shared + (kSwizzleAlignment - misaligned) % kSwizzleAlignment);
  const int rank = static_cast<int>(ptx::cluster_rank());
  const int first = static_cast<int>(blockIdx.x) / kCluster;
  const int step = static_cast<int>(gridDim.x) / kCluster;
  // The shuffle tells the compiler that it is the same for a warp.
  const int warpgroup = __shfl_sync(0xFFFFFFFFu, static_cast<int>(threadIdx.x) / kWarpgroup, 0);

  order.launch_next();
  if (threadIdx.x == 0) {
    memory.ring.init(1, kCluster * kConsumerWarps);
    ptx::fence_mbarrier_init();
  }
  ptx::cluster_sync();
  ptx::wait_for_previous_kernel();

  if (warpgroup == kConsumers) {
    ptx::registers_down_to<kLoaderRegisters>();
    if (threadIdx.x == kConsumers * kWarpgroup) load_tiles<kPieces>(all, memory, first, step, rank);
  } else {
    ptx::registers_up_to<kConsumerRegisters>();
    const int warp = static_cast<int>(threadIdx.x / 32), lane = static_cast<int>(threadIdx.x % 32);
    const int first_warp_token = warpgroup * kPieces * kPieceTokens + warp % 4 * kResultTokens;
    RingPlace at, task_at;
    for (int index = first, end = ManyWork<kPieces>(all).size(); index < end;
         index += step, task_at.advance(Memory::kTasks)) {
      memory.ring.wait_full(at);
      const ManyTask task = memory.tasks[task_at.stage];
      float sum[kPieces][kPieceSums];
      multiply_tile<kPieces>(memory, at, warpgroup, first_warp_token + lane / 4, all.num_slices, sum);
      if (task.beyond) continue;
      const Fp8Product& product = all.products[task.product];
#pragma unroll
      for (int piece = 0; piece < kPieces; ++piece) {
        const int token = task.first_token + first_warp_token + piece * kPieceTokens;
        if (product.y_f32) {
          store_f32(product, all.num_tokens, token, task.first_output, sum[piece]);
        } else {
          store_bf16(product, all.num_tokens, token, task.first_output, memory.results[warp], sum[piece]);
        }
      }
    }
  }
  __syncwarp();
  ptx::cluster_sync();  // the partner's copies and arrivals have come
}

template <int kPieces>
void launch_many(std::span<const LinearOutput> outputs, const Fp8Rows& x, std::int64_t num_tokens,
                 CudaContext& context) {
  using Memory = ManyMemory<kPieces>;
  const Fp8Products all = describe_products(
      outputs, x, num_tokens,
      {.rows = kTileRows, .row_slices = 1, .tokens = Memory::kTokens / kCluster, .token_slices = 1});
  const int clusters = std::min(ManyWork<kPieces>(all).size(), context.num_sms / kCluster);
  launch_kernel("FP8 products for many tokens", fp8_products_many_kernel<kPieces>,
                {.grid = dim3(static_cast<unsigned>(clusters * kCluster)),
                 .threads = kThreads,
                 .shared_bytes = sizeof(Memory) + kSwizzleAlignment,
                 .cluster = kCluster},
                context.stream, all);
}

/// Time of the tiles that follow one another on a multiprocessor, in slices of 128 x 128.
template <int kPieces>
std::int64_t tiles_in_a_row(std::int64_t weight_tiles, std::int64_t num_tokens, int num_sms) {
  const std::int64_t token_tiles =
      (num_tokens + ManyMemory<kPieces>::kTokens - 1) / ManyMemory<kPieces>::kTokens;
  const std::int64_t clusters = num_sms / kCluster, tasks = (weight_tiles + 1) / kCluster * token_tiles;
  return (tasks + clusters - 1) / clusters * kPieces;
}

}  // namespace

void fp8_products_many(std::span<const LinearOutput> outputs, const Fp8Rows& x, std::int64_t num_tokens,
                       CudaContext& context) {
  std::int64_t tiles = 0;
  for (const LinearOutput& output : outputs) tiles += (output.weight->rows + kTileRows - 1) / kTileRows;
  // The larger tile asks L2 for less.
  const bool large = tiles_in_a_row<2>(tiles, num_tokens, context.num_sms) <=
                     tiles_in_a_row<1>(tiles, num_tokens, context.num_sms);
  (large ? launch_many<2> : launch_many<1>)(outputs, x, num_tokens, context);
}

}  // namespace baleen::sm90
