// FP8 products for many tokens: bound by the tensor cores.
//
// Blocks stay and take tile after tile. A cluster of two works on two neighbouring tiles of weight rows and the same 128
// tokens: each loads its own weights and half of the tokens, which go to both. In a block one warp loads, and two
// warpgroups multiply, 64 weight rows each.
//
//                     tokens 0 .. 63 (block 0 loads)   64 .. 127 (block 1 loads)
//                    ┌───────────────────────────────┬──────────────────────────┐
//    block 0  128 x K│                               │                          │ warpgroup 0: rows 0 .. 63
//                    │                               │                          │ warpgroup 1: rows 64 .. 127
//    block 1  128 x K│                               │                          │
//                    └───────────────────────────────┴──────────────────────────┘

#include <algorithm>

#include "cuda/bf16_vector.cuh"
#include "cuda/kernel_launch.h"
#include "cuda/ptx/bulk_copy.h"
#include "cuda/ptx/cluster.h"
#include "cuda/ptx/grid_dependency.h"
#include "cuda/ptx/mbarrier.h"
#include "cuda/ptx/named_barrier.h"
#include "cuda/ptx/setmaxnreg.h"
#include "cuda/ptx/stmatrix.h"
#include "cuda/ptx/tma.h"
#include "cuda/tensor_map.h"
#include "ops/linear/fp8_products.h"
#include "ops/linear/fp8_slice.cuh"

namespace baleen {
namespace {

constexpr int kTokens = 128;  ///< of a tile
constexpr int kCluster = 2;
constexpr int kLoadedTokens = kTokens / kCluster;
constexpr int kWarpgroup = 128;
constexpr int kConsumers = 2;
constexpr int kThreads = kWarpgroup * (kConsumers + 1);
constexpr int kStages = 5;
constexpr int kSums = kTokens / 2;  ///< of a thread
constexpr int kTokenTileBytes = kTokens * kSliceInputs;
constexpr int kResultBytes =
    kTokens * kWarpgroupRows * 2;  ///< of a warpgroup, BF16: a row of 128 bytes for each token
constexpr int kSwizzleAlignment = 1024;
/// 65,536 registers: the loading warps give theirs to those that multiply.
constexpr int kLoaderRegisters = 40, kConsumerRegisters = 232;
/// Token tiles that are worked on together, so that weights and tokens in use stay in L2.
constexpr int kTokenTilesAtOnce = 8;

struct ManyMemory {
  std::uint8_t weights[kStages][kWeightTileBytes];
  std::uint8_t tokens[kStages][kTokenTileBytes];
  std::uint8_t results[kConsumers][kResultBytes];
  float token_scales[kStages][kTokens];
  std::uint64_t full[kStages];
  std::uint64_t empty[kStages];  ///< counts the warps of both blocks
};

/// Maps of the outputs in BF16, in boxes of kTokens rows x 128 bytes.
struct OutputMaps {
  CUtensorMap y[kMaxProducts];
};

/// A block's tile.
struct ManyTask {
  int product;
  int first_output;
  int first_token;
  bool beyond;  ///< the partner's tile is the last one; this block helps to load
};

__device__ int number_of_pairs(const Fp8Products& all) {
  return (all.num_tiles + 1) / kCluster * ((all.num_tokens + kTokens - 1) / kTokens);
}

/// Pair after pair of weight tiles for a few token tiles, then the next few.
__device__ ManyTask task_of(const Fp8Products& all, int pair, int rank) {
  const int weight_pairs = (all.num_tiles + 1) / kCluster;
  const int token_tiles = (all.num_tokens + kTokens - 1) / kTokens;
  const int pass = pair / (kTokenTilesAtOnce * weight_pairs);
  const int width = min(kTokenTilesAtOnce, token_tiles - pass * kTokenTilesAtOnce);
  const int within = pair - pass * kTokenTilesAtOnce * weight_pairs;
  const int tile = within / width * kCluster + rank;
  ManyTask task;
  task.beyond = tile >= all.num_tiles;
  task.product = product_of_tile(all, min(tile, all.num_tiles - 1));
  task.first_output = (tile - all.products[task.product].first_tile) * kTileRows;
  task.first_token = (pass * kTokenTilesAtOnce + within % width) * kTokens;
  return task;
}

/// Where in the ring a slice is: slices count on from tile to tile.
struct RingPosition {
  int stage = 0;
  std::uint32_t round = 0;
  __device__ void advance() {
    if (++stage == kStages) {
      stage = 0;
      ++round;
    }
  }
};

/// One thread: keeps the stages full.
__device__ void load_tiles(const Fp8Products& all, ManyMemory& memory, int first_pair, int pair_step,
                           int rank) {
  constexpr auto kBothBlocks = static_cast<std::uint16_t>((1 << kCluster) - 1);
  constexpr int kLoadedBytes = kLoadedTokens * kSliceInputs;
  RingPosition at;
  const int num_pairs = number_of_pairs(all);
  for (int pair = first_pair; pair < num_pairs; pair += pair_step) {
    const ManyTask task = task_of(all, pair, rank);
    const auto row = static_cast<std::int64_t>(task.first_token);
    const auto scale_bytes =
        static_cast<std::uint32_t>(4 * min(static_cast<std::int64_t>(kTokens), all.scale_stride - row));
    for (int slice = 0; slice < all.num_slices; ++slice, at.advance()) {
      const int input = slice * kSliceInputs;
      std::uint64_t* full = &memory.full[at.stage];
      ptx::mbarrier_wait(&memory.empty[at.stage], (at.round + 1) % 2);
      ptx::mbarrier_arrive_expect(full, kWeightTileBytes + kTokenTileBytes + scale_bytes);
      ptx::tma_load(memory.weights[at.stage], all.weights[task.product], full, input, task.first_output);
      ptx::tma_load_multicast(memory.tokens[at.stage] + rank * kLoadedBytes, all.tokens, full, input,
                              task.first_token + rank * kLoadedTokens, kBothBlocks);
      ptx::bulk_load(memory.token_scales[at.stage], all.token_scales + slice * all.scale_stride + row,
                     scale_bytes, full);
    }
  }
}

/// The products of one warpgroup with the slices of a ring.
struct SliceReader {
  ManyMemory& memory;
  RingPosition at;
  int warpgroup;

  /// Waits for the next slice and starts its product.
  __device__ void start(const RingPosition& position, float (&d)[kSums]) const {
    ptx::mbarrier_wait(&memory.full[position.stage], position.round % 2);
    start_slice<kTokens>(d, memory.weights[position.stage] + warpgroup * kWarpgroupRows * kSliceInputs,
                         memory.tokens[position.stage]);
  }
  /// Adds a finished product and gives the stage back, to both blocks that load into it.
  __device__ void finish(float (&sum)[kSums], float (&d)[kSums], float weight_scale) {
    add_slice<kTokens>(sum, d, memory.token_scales[at.stage], weight_scale);
    __syncwarp();
    const std::uint32_t lane = threadIdx.x % 32;
    if (lane < kCluster) ptx::mbarrier_arrive_cluster(&memory.empty[at.stage], lane);
    at.advance();
  }
};

/// One segment: the next product is under way while a finished one is added.
__device__ void multiply_tile(SliceReader& reader, const float* weight_scales, int num_slices,
                              float (&sum)[kSums]) {
  float even[kSums], odd[kSums];
#pragma unroll
  for (int i = 0; i < kSums; ++i) sum[i] = 0.0F;
  RingPosition next = reader.at;
  reader.start(next, even);
  // Nothing is asked inside about what is under way: the compiler would wait for all of it where paths meet.
  int slice = 0;
  for (; slice + 2 < num_slices; slice += 2) {
    next.advance();
    reader.start(next, odd);
    ptx::wgmma_wait<1>();
    reader.finish(sum, even, __ldg(weight_scales + slice));
    next.advance();
    reader.start(next, even);
    ptx::wgmma_wait<1>();
    reader.finish(sum, odd, __ldg(weight_scales + slice + 1));
  }
  if (slice + 1 < num_slices) {
    next.advance();
    reader.start(next, odd);
    ptx::wgmma_wait<1>();
    reader.finish(sum, even, __ldg(weight_scales + slice));
    ptx::wgmma_wait<0>();
    reader.finish(sum, odd, __ldg(weight_scales + slice + 1));
  } else {
    ptx::wgmma_wait<0>();
    reader.finish(sum, even, __ldg(weight_scales + slice));
  }
}

/// Several segments. Registers for their total are those of a second product above.
__device__ void multiply_tile_segmented(SliceReader& reader, const float* weight_scales, int num_slices,
                                        int segments, float (&total)[kSums]) {
  float product[kSums], sum[kSums];
  int slice = 0;
  for (int segment = 0; segment < segments; ++segment) {
#pragma unroll
    for (int i = 0; i < kSums; ++i) sum[i] = 0.0F;
    for (const int end = segment_begin(segment + 1, segments, num_slices); slice < end; ++slice) {
      const float weight_scale = __ldg(weight_scales + slice);
      reader.start(reader.at, product);
      ptx::wgmma_wait<0>();
      reader.finish(sum, product, weight_scale);
    }
#pragma unroll
    for (int i = 0; i < kSums; ++i) total[i] = segment == 0 ? sum[i] : total[i] + sum[i];
  }
}

/// The warpgroup's 64 outputs of every token, through shared memory and the copy engine.
__device__ void store_bf16(const CUtensorMap& map, std::uint8_t* results, const ManyTask& task, int warpgroup,
                           const float (&sum)[kSums]) {
  constexpr int kRowBytes = 2 * kWarpgroupRows;
  constexpr int kChunkBytes = 16;
  const std::uint32_t barrier = 1 + static_cast<std::uint32_t>(warpgroup);
  const int thread = static_cast<int>(threadIdx.x) % kWarpgroup, warp = thread / 32, lane = thread % 32;
  if (thread == 0) ptx::tma_store_wait<0>();  // the tile before this one has left
  ptx::named_barrier_sync(barrier, kWarpgroup);
  // Two groups of eight tokens at a time, sixteen outputs of the warp each. Chunks lie where the copy engine's swizzle
  // looks for them.
  const int token = lane / 16 * 8 + lane % 8;
  const int chunk = (2 * warp + lane / 8 % 2) ^ (lane % 8);
#pragma unroll
  for (int i = 0; i < kSums; i += 8) {
    const std::uint32_t values[4] = {pack_bf16(sum[i], sum[i + 1]), pack_bf16(sum[i + 2], sum[i + 3]),
                                     pack_bf16(sum[i + 4], sum[i + 5]), pack_bf16(sum[i + 6], sum[i + 7])};
    ptx::stmatrix_x4_transposed(results + (2 * i + token) * kRowBytes + chunk * kChunkBytes, values);
  }
  ptx::fence_proxy_async();
  ptx::named_barrier_sync(barrier, kWarpgroup);
  if (thread == 0) {
    ptx::tma_store(map, results, 2 * (task.first_output + warpgroup * kWarpgroupRows), task.first_token);
    ptx::tma_store_commit();
  }
}

/// Outputs kept in float32, which few layers want.
__device__ void store_f32(const Fp8Product& product, const ManyTask& task, int num_tokens, int warpgroup,
                          const float (&sum)[kSums]) {
  const int thread = static_cast<int>(threadIdx.x) % kWarpgroup, warp = thread / 32, lane = thread % 32;
  const int row = task.first_output + warpgroup * kWarpgroupRows + 16 * warp + lane / 4;
#pragma unroll
  for (int i = 0; i < kSums; ++i) {
    const int token = task.first_token + 8 * (i / 4) + 2 * (lane % 4) + i % 2;
    const int output = row + (i % 4 < 2 ? 0 : 8);
    if (token < num_tokens && output < product.num_outputs) {
      reinterpret_cast<float*>(product.y)[token * product.y_stride + output] = sum[i];
    }
  }
}

template <bool kSegmented>
__global__ void __launch_bounds__(kThreads, 1)
    fp8_products_many_kernel(const __grid_constant__ Fp8Products all,
                             const __grid_constant__ OutputMaps maps) {
  extern __shared__ std::uint8_t shared[];
  const std::uint32_t misaligned = ptx::shared_address(shared) % kSwizzleAlignment;
  auto& memory =
      *reinterpret_cast<ManyMemory*>(shared + (kSwizzleAlignment - misaligned) % kSwizzleAlignment);
  const int rank = static_cast<int>(ptx::cluster_rank());
  const int first_pair = static_cast<int>(blockIdx.x) / kCluster;
  const int pair_step = static_cast<int>(gridDim.x) / kCluster;
  const int warpgroup = static_cast<int>(threadIdx.x) / kWarpgroup;

  ptx::launch_next_kernel();
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < kStages; ++stage) {
      ptx::mbarrier_init(&memory.full[stage], 1);
      ptx::mbarrier_init(&memory.empty[stage], kCluster * kConsumers * kWarpgroup / 32);
    }
    ptx::fence_mbarrier_init();
  }
  ptx::cluster_sync();
  ptx::wait_for_previous_kernel();

  if (warpgroup == kConsumers) {
    ptx::registers_down_to<kLoaderRegisters>();
    if (threadIdx.x == kConsumers * kWarpgroup) load_tiles(all, memory, first_pair, pair_step, rank);
  } else {
    ptx::registers_up_to<kConsumerRegisters>();
    SliceReader reader{memory, {}, warpgroup};
    const int num_pairs = number_of_pairs(all);
    for (int pair = first_pair; pair < num_pairs; pair += pair_step) {
      const ManyTask task = task_of(all, pair, rank);
      const Fp8Product& product = all.products[task.product];
      // Beyond the last tile the copy engine brings zeros; any scale does.
      const std::int64_t scale_row = task.beyond ? 0 : task.first_output / kTileRows;
      const float* weight_scales = product.weight_scales + scale_row * all.num_slices;
      float sum[kSums];
      if constexpr (kSegmented) {
        multiply_tile_segmented(reader, weight_scales, all.num_slices, all.num_segments, sum);
      } else {
        multiply_tile(reader, weight_scales, all.num_slices, sum);
      }
      if (task.beyond) continue;
      if (product.y_f32) {
        store_f32(product, task, all.num_tokens, warpgroup, sum);
      } else {
        store_bf16(maps.y[task.product], memory.results[warpgroup], task, warpgroup, sum);
      }
    }
    if (threadIdx.x % kWarpgroup == 0) ptx::tma_store_wait<0>();
  }
  __syncwarp();
  ptx::cluster_sync();  // the partner's copies and arrivals have come
}

}  // namespace

void fp8_products_many(std::span<const LinearOutput> outputs, const Fp8Rows& x, std::int64_t num_tokens,
                       CudaContext& context) {
  const Fp8Products all = describe_products(outputs, x, num_tokens, kLoadedTokens);
  OutputMaps maps{};
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].keep_f32) continue;
    const Activations<2>& y = outputs[i].y;
    maps.y[i] = make_tensor_map(y.address(), num_tokens, 2 * y.extent(1), 2 * y.stride(0), kTokens,
                                2 * kWarpgroupRows, TileSwizzle::k128B);
  }
  const std::int64_t pairs = (all.num_tiles + 1) / kCluster * ((num_tokens + kTokens - 1) / kTokens);
  const auto clusters = std::min<std::int64_t>(pairs, context.num_sms / kCluster);
  const LaunchShape shape{.grid = dim3(static_cast<unsigned>(clusters * kCluster)),
                          .threads = kThreads,
                          .shared_bytes = sizeof(ManyMemory) + kSwizzleAlignment,
                          .cluster = kCluster};
  launch_kernel("FP8 products for many tokens",
                all.num_segments > 1 ? fp8_products_many_kernel<true> : fp8_products_many_kernel<false>,
                shape, context.stream, all, maps);
}

}  // namespace baleen
