// FP8 products for many tokens: bound by the tensor cores.
//
// Blocks stay and take tile after tile. A cluster of two works on two neighbouring tiles of weight rows and the same 128
// tokens, of which each block loads one half, for both. In a block one warp loads, and two warpgroups multiply, 64 tokens
// each: tokens are the rows of D here, so that a thread has two of their scales and not 32.
//
//                             tokens 0 .. 63 (loaded by block 0)   64 .. 127 (by block 1)
//                            ┌───────────────────────────────────┬───────────────────────┐
//    weight rows 0 .. 127    │ block 0: warpgroup 0              │ warpgroup 1           │
//                            ├───────────────────────────────────┼───────────────────────┤
//    weight rows 128 .. 255  │ block 1: warpgroup 0              │ warpgroup 1           │
//                            └───────────────────────────────────┴───────────────────────┘
//
// Clusters of four, two tiles by two, ask L2 for a third less, but fewer blocks fit on the device.

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
constexpr int kSums = kTileRows / 2;  ///< of a thread
constexpr int kTokenTileBytes = kTokens * kSliceInputs;
constexpr int kResultRowBytes = 128;  ///< of a token: half a tile's outputs in BF16
constexpr int kResultHalfBytes = kWarpgroupRows * kResultRowBytes;
constexpr int kSwizzleAlignment = 1024;
/// 65,536 registers: the loading warps give theirs to those that multiply.
constexpr int kLoaderRegisters = 40, kConsumerRegisters = 232;
/// Token tiles that are worked on together, so that weights and tokens in use stay in L2.
constexpr int kTokenTilesAtOnce = 8;

struct ManyMemory {
  std::uint8_t weights[kStages][kWeightTileBytes];
  std::uint8_t tokens[kStages][kTokenTileBytes];
  std::uint8_t results[kConsumers][2 * kResultHalfBytes];
  float token_scales[kStages][kTokens];
  std::uint64_t full[kStages];
  std::uint64_t empty[kStages];  ///< counts the warps of both blocks
};

constexpr int kSharedBytes = sizeof(ManyMemory) + kSwizzleAlignment;

/// Maps of the outputs in BF16, in boxes of kWarpgroupRows tokens x kResultRowBytes.
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

/// Pairs of weight tiles times token tiles: each is a cluster's work.
struct ManyWork {
  int weight_pairs;
  int token_tiles;

  __host__ __device__ explicit ManyWork(const Fp8Products& all)
      : weight_pairs((all.num_tiles + kCluster - 1) / kCluster),
        token_tiles((all.num_tokens + kTokens - 1) / kTokens) {}
  __host__ __device__ int size() const { return weight_pairs * token_tiles; }

  /// Pair after pair of weight tiles for a few token tiles, then the next few.
  __device__ ManyTask task(const Fp8Products& all, int index, int rank) const {
    const int pass = index / (kTokenTilesAtOnce * weight_pairs);
    const int width = min(kTokenTilesAtOnce, token_tiles - pass * kTokenTilesAtOnce);
    const int within = index - pass * kTokenTilesAtOnce * weight_pairs;
    const int tile = within / width * kCluster + rank;
    ManyTask task;
    task.product = product_of_tile(all, min(tile, all.num_tiles - 1));
    task.first_output = (tile - all.products[task.product].first_tile) * kTileRows;
    task.first_token = (pass * kTokenTilesAtOnce + within % width) * kTokens;
    task.beyond = tile >= all.num_tiles;
    return task;
  }
};

/// One thread: keeps the stages full.
__device__ void load_tiles(const Fp8Products& all, ManyMemory& memory, int first, int step, int rank) {
  constexpr auto kBothBlocks = static_cast<std::uint16_t>((1 << kCluster) - 1);
  RingPosition<kStages> at;
  const ManyWork work(all);
  for (int index = first; index < work.size(); index += step) {
    const ManyTask task = work.task(all, index, rank);
    const auto token = static_cast<std::int64_t>(task.first_token);
    const auto scale_bytes =
        static_cast<std::uint32_t>(4 * min(static_cast<std::int64_t>(kTokens), all.scale_stride - token));
    for (int slice = 0; slice < all.num_slices; ++slice, at.advance()) {
      const int input = slice * kSliceInputs;
      std::uint64_t* full = &memory.full[at.stage];
      ptx::mbarrier_wait(&memory.empty[at.stage], (at.round + 1) % 2);
      ptx::mbarrier_arrive_expect(full, kWeightTileBytes + kTokenTileBytes + scale_bytes);
      ptx::tma_load(memory.weights[at.stage], all.weights[task.product], full, input, task.first_output);
      ptx::tma_load_multicast(memory.tokens[at.stage] + rank * kLoadedTokens * kSliceInputs, all.tokens, full,
                              input, task.first_token + rank * kLoadedTokens, kBothBlocks);
      ptx::bulk_load(memory.token_scales[at.stage], all.token_scales + slice * all.scale_stride + token,
                     scale_bytes, full);
    }
  }
}

/// Scales of a tile's weights, one slice in each lane: loaded while the tile before is multiplied.
struct WeightScales {
  const float* row;
  int num_slices;
  float held;  ///< of slice 32 i + lane, for the i in use

  __device__ WeightScales(const Fp8Products& all, const ManyTask& task) : num_slices(all.num_slices) {
    const Fp8Product& product = all.products[task.product];
    // Beyond the last tile the copy engine brings zeros; any scale does.
    const std::int64_t scale_row = task.beyond ? 0 : task.first_output / kTileRows;
    row = product.weight_scales + scale_row * all.num_slices;
    load(0);
  }
  __device__ void load(int first) {
    const int slice = first + static_cast<int>(threadIdx.x % 32);
    held = slice < num_slices ? __ldg(row + slice) : 0.0F;
  }
  /// Slices are asked for in ascending order.
  __device__ float operator[](int slice) {
    if (slice > 0 && slice % 32 == 0) load(slice);
    return __shfl_sync(0xFFFFFFFFu, held, slice % 32);
  }
};

/// The products of one warpgroup with the slices of a ring.
struct SliceReader {
  ManyMemory& memory;
  std::uint64_t tokens;   ///< descriptor of the warpgroup's in stage 0
  std::uint64_t weights;  ///< the same
  int first_token;        ///< of this thread's two: the other is the eighth after it
  RingPosition<kStages> at{};

  __device__ SliceReader(ManyMemory& shared, int warpgroup)
      : memory(shared),
        tokens(slice_descriptor(shared.tokens[0] + warpgroup * kWarpgroupRows * kSliceInputs)),
        weights(slice_descriptor(shared.weights[0])),
        first_token(static_cast<int>(threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4)) {}

  /// Waits for a slice and starts its product.
  __device__ void start(const RingPosition<kStages>& position, float (&d)[kSums]) const {
    const auto stage = static_cast<std::uint64_t>(position.stage);
    ptx::mbarrier_wait(&memory.full[position.stage], position.round % 2);
    start_slice<kTileRows>(d, tokens + stage * (kTokenTileBytes / 16),
                           weights + stage * (kWeightTileBytes / 16));
  }
  /// s_x s_w of this thread's tokens for a slice that has been started.
  [[nodiscard]] __device__ float2 scales(float weight_scale) const {
    const float* s_x = memory.token_scales[at.stage] + first_token;
    return {s_x[0] * weight_scale, s_x[8] * weight_scale};
  }
  /// Adds a finished product and gives the stage back, to both blocks that load into it.
  __device__ void finish(float (&sum)[kSums], float (&d)[kSums], float2 scale) {
    hold_slice(d);
    __syncwarp();
    const std::uint32_t lane = threadIdx.x % 32;
    if (lane < kCluster) ptx::mbarrier_arrive_cluster_read(&memory.empty[at.stage], lane);
    at.advance();
#pragma unroll
    for (int i = 0; i < kSums; ++i) sum[i] = fmaf(d[i], i % 4 < 2 ? scale.x : scale.y, sum[i]);
  }
};

/// One segment: the next product is under way while a finished one is added.
__device__ void multiply_tile(SliceReader& reader, WeightScales& weight_scales, int num_slices,
                              float (&sum)[kSums]) {
  float even[kSums], odd[kSums];
#pragma unroll
  for (int i = 0; i < kSums; ++i) sum[i] = 0.0F;
  RingPosition<kStages> next = reader.at;
  reader.start(next, even);
  float2 scale = reader.scales(weight_scales[0]);
  // Nothing is asked inside about what is under way: the compiler would wait for all of it where paths meet.
  int slice = 0;
  for (; slice + 2 < num_slices; slice += 2) {
    next.advance();
    reader.start(next, odd);
    ptx::wgmma_wait<1>();
    reader.finish(sum, even, scale);
    scale = reader.scales(weight_scales[slice + 1]);
    next.advance();
    reader.start(next, even);
    ptx::wgmma_wait<1>();
    reader.finish(sum, odd, scale);
    scale = reader.scales(weight_scales[slice + 2]);
  }
  if (slice + 1 < num_slices) {
    next.advance();
    reader.start(next, odd);
    ptx::wgmma_wait<1>();
    reader.finish(sum, even, scale);
    scale = reader.scales(weight_scales[slice + 1]);
    ptx::wgmma_wait<0>();
    reader.finish(sum, odd, scale);
  } else {
    ptx::wgmma_wait<0>();
    reader.finish(sum, even, scale);
  }
}

/// Several segments. Registers for their total are those of a second product above.
__device__ void multiply_tile_segmented(SliceReader& reader, WeightScales& weight_scales, int num_slices,
                                        int segments, float (&total)[kSums]) {
  float product[kSums], sum[kSums];
  int slice = 0;
  for (int segment = 0; segment < segments; ++segment) {
#pragma unroll
    for (int i = 0; i < kSums; ++i) sum[i] = 0.0F;
    for (const int end = segment_begin(segment + 1, segments, num_slices); slice < end; ++slice) {
      reader.start(reader.at, product);
      const float2 scale = reader.scales(weight_scales[slice]);
      ptx::wgmma_wait<0>();
      reader.finish(sum, product, scale);
    }
#pragma unroll
    for (int i = 0; i < kSums; ++i) total[i] = segment == 0 ? sum[i] : total[i] + sum[i];
  }
}

/// The warpgroup's 64 tokens, through shared memory and the copy engine.
__device__ void store_bf16(const CUtensorMap& map, std::uint8_t* results, const ManyTask& task, int warpgroup,
                           const float (&sum)[kSums]) {
  constexpr int kChunkBytes = 16;
  const std::uint32_t barrier = 1 + static_cast<std::uint32_t>(warpgroup);
  const int thread = static_cast<int>(threadIdx.x) % kWarpgroup, warp = thread / 32, lane = thread % 32;
  if (thread == 0) ptx::tma_store_wait<0>();  // the tile before this one has left
  ptx::named_barrier_sync(barrier, kWarpgroup);
  // Sixteen tokens of the warp and sixteen outputs at a time. Chunks of eight outputs lie where the copy engine's swizzle
  // looks for them.
  std::uint8_t* row = results + (warp * 16 + lane % 16) * kResultRowBytes;
#pragma unroll
  for (int i = 0; i < kSums; i += 8) {
    const std::uint32_t values[4] = {pack_bf16(sum[i], sum[i + 1]), pack_bf16(sum[i + 2], sum[i + 3]),
                                     pack_bf16(sum[i + 4], sum[i + 5]), pack_bf16(sum[i + 6], sum[i + 7])};
    const int chunk = i / 4 % 8 + lane / 16, half = i / 32;
    ptx::stmatrix_x4(row + half * kResultHalfBytes + (chunk ^ lane % 8) * kChunkBytes, values);
  }
  ptx::fence_proxy_async();
  ptx::named_barrier_sync(barrier, kWarpgroup);
  if (thread == 0) {
    for (int half = 0; half < 2; ++half) {
      ptx::tma_store(map, results + half * kResultHalfBytes, 2 * task.first_output + half * kResultRowBytes,
                     task.first_token + warpgroup * kWarpgroupRows);
    }
    ptx::tma_store_commit();
  }
}

/// Outputs kept in float32, which few layers want.
__device__ void store_f32(const Fp8Product& product, const ManyTask& task, int num_tokens, int first_token,
                          const float (&sum)[kSums]) {
  const int column = 2 * static_cast<int>(threadIdx.x % 4);
#pragma unroll
  for (int i = 0; i < kSums; i += 2) {
    const int token = task.first_token + first_token + (i % 4 < 2 ? 0 : 8);
    const int output = task.first_output + 2 * (i - i % 4) + column;
    if (token < num_tokens && output < product.num_outputs) {
      float* y = reinterpret_cast<float*>(product.y) + token * product.y_stride + output;
      *reinterpret_cast<float2*>(y) = {sum[i], sum[i + 1]};
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
  const int first = static_cast<int>(blockIdx.x) / kCluster;
  const int step = static_cast<int>(gridDim.x) / kCluster;
  // The shuffle tells the compiler that it is the same for a warp.
  const int warpgroup = __shfl_sync(0xFFFFFFFFu, static_cast<int>(threadIdx.x) / kWarpgroup, 0);

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
    if (threadIdx.x == kConsumers * kWarpgroup) load_tiles(all, memory, first, step, rank);
  } else {
    ptx::registers_up_to<kConsumerRegisters>();
    SliceReader reader(memory, warpgroup);
    const ManyWork work(all);
    const auto task_at = [&](int index) { return work.task(all, min(index, work.size() - 1), rank); };
    WeightScales weight_scales(all, task_at(first));
    for (int index = first; index < work.size(); index += step) {
      const WeightScales next_scales(all, task_at(index + step));
      float sum[kSums];
      if constexpr (kSegmented) {
        multiply_tile_segmented(reader, weight_scales, all.num_slices, all.num_segments, sum);
      } else {
        multiply_tile(reader, weight_scales, all.num_slices, sum);
      }
      weight_scales = next_scales;
      const ManyTask task = task_at(index);
      if (task.beyond) continue;
      const Fp8Product& product = all.products[task.product];
      if (product.y_f32) {
        store_f32(product, task, all.num_tokens, reader.first_token, sum);
      } else {
        store_bf16(maps.y[task.product], memory.results[warpgroup], task, warpgroup, sum);
      }
    }
    if (threadIdx.x % kWarpgroup == 0) ptx::tma_store_wait<0>();
  }
  __syncwarp();
  ptx::cluster_sync();  // the partner's copies and arrivals have come
}

template <bool kSegmented>
void launch_many(const Fp8Products& all, const OutputMaps& maps, CudaContext& context) {
  const int clusters = std::min(ManyWork(all).size(), context.num_sms / kCluster);
  launch_kernel("FP8 products for many tokens", fp8_products_many_kernel<kSegmented>,
                {.grid = dim3(static_cast<unsigned>(clusters * kCluster)),
                 .threads = kThreads,
                 .shared_bytes = kSharedBytes,
                 .cluster = kCluster},
                context.stream, all, maps);
}

}  // namespace

void fp8_products_many(std::span<const LinearOutput> outputs, const Fp8Rows& x, std::int64_t num_tokens,
                       CudaContext& context) {
  const Fp8Products all = describe_products(outputs, x, num_tokens, kTileRows, kLoadedTokens);
  OutputMaps maps{};
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].keep_f32) continue;
    const Activations<2>& y = outputs[i].y;
    maps.y[i] = make_tensor_map(y.address(), num_tokens, 2 * y.extent(1), 2 * y.stride(0), kWarpgroupRows,
                                kResultRowBytes, TileSwizzle::k128B);
  }
  (all.num_segments > 1 ? launch_many<true> : launch_many<false>)(all, maps, context);
}

}  // namespace baleen
