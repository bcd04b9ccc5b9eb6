// FP8 products for few tokens: bound by the bytes of the weights.
//
// A cluster owns a tile of 128 weight rows and up to 64 tokens, each of its blocks a segment of the inputs. In a block
// one warp loads and two warpgroups multiply, 64 rows each. At the end every block sends each other one the rows that the
// other is to finish, and adds the segments of its own rows in order. Without segments a block takes tile after tile.
//
//        K ──►  segment 0     segment 1     segment 2     segment 3
//    128 rows  ┌───────────┬─────────────┬─────────────┬────────────┐        block r of the cluster finishes
//    of W      │ block 0   │  block 1    │  block 2    │  block 3   │  ───►  rows 32 r .. 32 r + 31
//              └───────────┴─────────────┴─────────────┴────────────┘
//
// Memory must never idle: weights do not depend on the kernel before this one, so the stages of shared memory are filled
// and the slices after them asked into L2 before it has ended.

#include <algorithm>

#include "cuda/bf16_vector.cuh"
#include "cuda/kernel_launch.h"
#include "cuda/ptx/bulk_copy.h"
#include "cuda/ptx/cluster.h"
#include "cuda/ptx/grid_dependency.h"
#include "cuda/ptx/mbarrier.h"
#include "cuda/ptx/named_barrier.h"
#include "cuda/ptx/tma.h"
#include "ops/linear/fp8_products.h"
#include "ops/linear/fp8_slice.cuh"

namespace baleen {
namespace {

constexpr int kConsumerWarps = 8;
constexpr int kConsumers = 32 * kConsumerWarps;
constexpr int kThreads = kConsumers + 32;
constexpr int kConsumerBarrier = 1;
constexpr int kSwizzleAlignment = 1024;
/// Slices of a block that are asked into L2 ahead of its stages: with 132 blocks 25 MB, half of the L2.
constexpr int kSlicesAhead = 12;
/// Two blocks share a multiprocessor: of this kernel, or one of it and one of the next.
constexpr int kBlocksPerSm = 2;

/// Shared memory of a block for tiles of `kTokens` tokens.
template <int kTokens>
struct FewMemory {
  static constexpr int kStages = kTokens <= 16 ? 5 : kTokens <= 32 ? 4 : 3;
  static constexpr int kTokenTileBytes = kTokens * kSliceInputs;
  static constexpr int kSums = kTileRows * kTokens;

  /// Both for sums: [rows of a block of the cluster][token][row], and what the blocks sent: [segment][token][row].
  union {
    std::uint8_t weights[kStages][kWeightTileBytes];
    float sums[kSums];  ///< when the last slice has been multiplied
  };
  std::uint8_t tokens[kStages][kTokenTileBytes];
  float received[kSums];
  float token_scales[kStages][kTokens];
  std::uint64_t full[kStages];
  std::uint64_t empty[kStages];
  std::uint64_t all_received;
};

/// A block's work: a segment of tiles, slice after slice, the tiles `step` apart.
struct FewWork {
  int segments;
  int segment;
  int first_slice;
  int num_slices;  ///< of a tile
  int first;
  int step;
  int tiles;  ///< of weights times those of tokens

  __device__ FewWork(const Fp8Products& all, int tokens_per_tile) {
    segments = all.num_segments;
    segment = segments > 1 ? static_cast<int>(ptx::cluster_rank()) : 0;
    first_slice = segment_begin(segment, segments, all.num_slices);
    num_slices = segment_begin(segment + 1, segments, all.num_slices) - first_slice;
    first = static_cast<int>(blockIdx.x) / segments;
    step = static_cast<int>(gridDim.x) / segments;
    tiles = all.num_tiles * ((all.num_tokens + tokens_per_tile - 1) / tokens_per_tile);
  }
  /// Slices of all tiles of the block.
  __device__ int total_slices() const { return (tiles - first + step - 1) / step * num_slices; }
};

/// Where a tile is. Tiles of the same weights follow one another.
struct FewTile {
  int product;
  int first_output;
  int first_token;

  __device__ FewTile(const Fp8Products& all, int tile, int tokens_per_tile) {
    const int token_tiles = (all.num_tokens + tokens_per_tile - 1) / tokens_per_tile;
    product = product_of_tile(all, tile / token_tiles);
    first_output = (tile / token_tiles - all.products[product].first_tile) * kTileRows;
    first_token = tile % token_tiles * tokens_per_tile;
  }
};

/// One thread: keeps the stages full.
template <int kTokens>
__device__ void load_slices(const Fp8Products& all, const FewWork& work, FewMemory<kTokens>& memory) {
  using Memory = FewMemory<kTokens>;
  const auto tile_of = [&](int i) {
    return FewTile(all, work.first + i / work.num_slices * work.step, kTokens);
  };
  const auto slice_of = [&](int i) { return work.first_slice + i % work.num_slices; };
  const auto scale_bytes = [&](const FewTile& tile) {
    return static_cast<std::uint32_t>(
        4 * min(static_cast<std::int64_t>(kTokens), all.scale_stride - tile.first_token));
  };
  const auto prefetch = [&](int i) {
    const FewTile tile = tile_of(i);
    ptx::tma_prefetch_l2(all.weights[tile.product], slice_of(i) * kSliceInputs, tile.first_output);
  };
  const auto load_weights = [&](int i) {
    const FewTile tile = tile_of(i);
    std::uint64_t* full = &memory.full[i % Memory::kStages];
    ptx::mbarrier_arrive_expect(full, kWeightTileBytes + Memory::kTokenTileBytes + scale_bytes(tile));
    ptx::tma_load(memory.weights[i % Memory::kStages], all.weights[tile.product], full,
                  slice_of(i) * kSliceInputs, tile.first_output, ptx::L2Hint::kEvictFirst);
  };
  const auto load_tokens = [&](int i) {
    const FewTile tile = tile_of(i);
    const int stage = i % Memory::kStages;
    ptx::tma_load(memory.tokens[stage], all.tokens, &memory.full[stage], slice_of(i) * kSliceInputs,
                  tile.first_token);
    ptx::bulk_load(memory.token_scales[stage],
                   all.token_scales + slice_of(i) * all.scale_stride + tile.first_token, scale_bytes(tile),
                   &memory.full[stage]);
  };

  const int total = work.total_slices(), at_once = min(Memory::kStages, total);
  for (int i = 0; i < at_once; ++i) load_weights(i);
  for (int i = at_once; i < min(at_once + kSlicesAhead, total); ++i) prefetch(i);
  ptx::wait_for_previous_kernel();
  for (int i = 0; i < at_once; ++i) load_tokens(i);
  for (int i = at_once; i < total; ++i) {
    ptx::mbarrier_wait(&memory.empty[i % Memory::kStages], (i / Memory::kStages + 1) % 2);
    load_weights(i);
    load_tokens(i);
    if (i + kSlicesAhead < total) prefetch(i + kSlicesAhead);
  }
}

/// Scales of a tile's slices from `slice` on, one in each lane.
__device__ float load_weight_scales(const Fp8Products& all, const FewWork& work, const FewTile& tile,
                                    int slice) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  const float* scales = all.products[tile.product].weight_scales +
                        static_cast<std::int64_t>(tile.first_output / kTileRows) * all.num_slices +
                        work.first_slice;
  return slice + lane < work.num_slices ? __ldg(scales + slice + lane) : 0.0F;
}

/// The warpgroup's 64 rows of a segment's sum. `done`: slices of the tiles before. `weight_scales`: of the first slices.
template <int kTokens>
__device__ void multiply_slices(const Fp8Products& all, const FewWork& work, const FewTile& tile,
                                FewMemory<kTokens>& memory, int done, float weight_scales,
                                float (&sum)[kTokens / 2]) {
  using Memory = FewMemory<kTokens>;
  const int warpgroup = static_cast<int>(threadIdx.x) / 128;
  float product[kTokens / 2];
#pragma unroll
  for (int i = 0; i < kTokens / 2; ++i) sum[i] = 0.0F;
  for (int slice = 0; slice < work.num_slices; ++slice) {
    if (slice > 0 && slice % 32 == 0) weight_scales = load_weight_scales(all, work, tile, slice);
    const int stage = (done + slice) % Memory::kStages;
    ptx::mbarrier_wait(&memory.full[stage], (done + slice) / Memory::kStages % 2);
    start_slice<kTokens>(product, memory.weights[stage] + warpgroup * kWarpgroupRows * kSliceInputs,
                         memory.tokens[stage]);
    ptx::wgmma_wait<0>();
    add_slice<kTokens>(sum, product, memory.token_scales[stage],
                       __shfl_sync(0xFFFFFFFFu, weight_scales, slice % 32));
    __syncwarp();
    if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(&memory.empty[stage]);
  }
}

/// Rows of a token lie permuted within 32, so that the lanes of a warp, which hold eight rows of four pairs of tokens,
/// meet no bank twice. Eight rows stay together. `rows`: of a token, at least 16.
__device__ inline int place_of_row(int row, int token, int rows) {
  return row ^ (token / 2 % 4 * 8 & (rows - 1));
}

/// Sums of a thread to shared memory, by the block that finishes them.
template <int kTokens>
__device__ void put_sums(float* to, int segments, int num_tokens, const float (&sum)[kTokens / 2]) {
  constexpr int kWarpRows = 16;
  const int warp = static_cast<int>(threadIdx.x / 32), lane = static_cast<int>(threadIdx.x % 32);
  const int rows = kTileRows / segments;
  to += warp * kWarpRows / rows * num_tokens * rows;
  const int first_row = warp * kWarpRows % rows + lane / 4;
#pragma unroll
  for (int i = 0; i < kTokens / 2; ++i) {
    const int token = 8 * (i / 4) + 2 * (lane % 4) + i % 2;
    const int row = first_row + (i % 4 < 2 ? 0 : 8);
    if (token < num_tokens) to[token * rows + place_of_row(row, token, rows)] = sum[i];
  }
}

/// Adds the segments of this block's rows, `from`: [segment][token][row], and writes them, eight outputs of a token at a
/// time.
__device__ void finish_rows(const Fp8Products& all, const FewWork& work, const FewTile& tile,
                            const float* from, int num_tokens) {
  constexpr int kVector = 8;
  const Fp8Product& product = all.products[tile.product];
  const int rows = kTileRows / work.segments;
  const int vectors = rows / kVector;
  for (int i = static_cast<int>(threadIdx.x); i < num_tokens * vectors; i += kConsumers) {
    const int token = i / vectors, row = i % vectors * kVector;
    const int output = tile.first_output + work.segment * rows + row;
    if (output >= product.num_outputs) continue;
    const auto* vector =
        reinterpret_cast<const float4*>(from + token * rows + place_of_row(row, token, rows));
    float4 low = vector[0], high = vector[1];
    for (int segment = 1; segment < work.segments; ++segment) {
      vector += num_tokens * rows / 4;
      low = {low.x + vector[0].x, low.y + vector[0].y, low.z + vector[0].z, low.w + vector[0].w};
      high = {high.x + vector[1].x, high.y + vector[1].y, high.z + vector[1].z, high.w + vector[1].w};
    }
    const std::int64_t at = (tile.first_token + token) * product.y_stride + output;
    if (product.y_f32) {
      auto* y = reinterpret_cast<float4*>(reinterpret_cast<float*>(product.y) + at);
      y[0] = low;
      y[1] = high;
    } else {
      const float values[kVector] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
      *reinterpret_cast<uint4*>(reinterpret_cast<__nv_bfloat16*>(product.y) + at) = pack_bf16(values);
    }
  }
}

/// The consumers of a block: their tiles, or the one tile of a cluster.
template <int kTokens>
__device__ void consume(const Fp8Products& all, const FewWork& work, FewMemory<kTokens>& memory) {
  const auto meet = [] { ptx::named_barrier_sync(kConsumerBarrier, kConsumers); };
  FewTile tile(all, work.first, kTokens);
  float weight_scales = load_weight_scales(all, work, tile, 0);
  int done = 0;
  for (int index = work.first; index < work.tiles; index += work.step, done += work.num_slices) {
    const FewTile next(all, min(index + work.step, work.tiles - 1), kTokens);
    const float next_scales = load_weight_scales(all, work, next, 0);
    float sum[kTokens / 2];
    multiply_slices<kTokens>(all, work, tile, memory, done, weight_scales, sum);
    const int num_tokens = min(kTokens, all.num_tokens - tile.first_token);
    if (work.segments == 1) {
      put_sums<kTokens>(memory.received, 1, num_tokens, sum);
      meet();
      finish_rows(all, work, tile, memory.received, num_tokens);
      meet();  // before the sums of the next tile
    } else {
      meet();  // all have read the weights that the sums replace
      put_sums<kTokens>(memory.sums, work.segments, num_tokens, sum);
      ptx::fence_proxy_async();
      meet();
      ptx::cluster_wait();  // every block of the cluster expects its sums
      const auto to = static_cast<int>(threadIdx.x);
      const int count = kTileRows / work.segments * num_tokens;
      if (to < work.segments) {
        ptx::bulk_send(memory.received + work.segment * count, memory.sums + to * count,
                       static_cast<std::uint32_t>(4 * count), &memory.all_received,
                       static_cast<std::uint32_t>(to));
      }
      __syncwarp();
      ptx::mbarrier_wait(&memory.all_received, 0);
      __syncwarp();
      ptx::cluster_arrive();
      finish_rows(all, work, tile, memory.received, num_tokens);
    }
    tile = next;
    weight_scales = next_scales;
  }
}

template <int kTokens>
__global__ void __launch_bounds__(kThreads, kBlocksPerSm)
    fp8_products_few_kernel(const __grid_constant__ Fp8Products all) {
  using Memory = FewMemory<kTokens>;
  extern __shared__ std::uint8_t shared[];
  const std::uint32_t misaligned = ptx::shared_address(shared) % kSwizzleAlignment;
  auto& memory = *reinterpret_cast<Memory*>(shared + (kSwizzleAlignment - misaligned) % kSwizzleAlignment);
  const FewWork work(all, kTokens);
  const bool clustered = work.segments > 1;

  ptx::launch_next_kernel();
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < Memory::kStages; ++stage) {
      ptx::mbarrier_init(&memory.full[stage], 1);
      ptx::mbarrier_init(&memory.empty[stage], kConsumerWarps);
    }
    ptx::mbarrier_init(&memory.all_received, 1);
    ptx::fence_mbarrier_init();
    if (clustered) {
      const FewTile tile(all, work.first, kTokens);
      const int num_tokens = min(kTokens, all.num_tokens - tile.first_token);
      ptx::mbarrier_arrive_expect(&memory.all_received,
                                  static_cast<std::uint32_t>(4 * kTileRows * num_tokens));
    }
  }
  __syncthreads();
  // First phase of the cluster's barrier: its blocks may send to one another. Second phase: nothing is under way.
  if (clustered) ptx::cluster_arrive();
  if (threadIdx.x >= kConsumers) {
    if (threadIdx.x == kConsumers) load_slices<kTokens>(all, work, memory);
    __syncwarp();
    if (clustered) {
      ptx::cluster_wait();
      ptx::cluster_arrive();
    }
  } else {
    consume<kTokens>(all, work, memory);
  }
  if (clustered) ptx::cluster_wait();
}

template <int kTokens>
void launch_few(std::span<const LinearOutput> outputs, const Fp8Rows& x, std::int64_t num_tokens,
                CudaContext& context) {
  const Fp8Products all = describe_products(outputs, x, num_tokens, kTokens);
  const std::int64_t tiles = all.num_tiles * ((num_tokens + kTokens - 1) / kTokens);
  const std::int64_t resident = std::int64_t{kBlocksPerSm} * context.num_sms;
  const std::int64_t blocks = all.num_segments > 1 ? tiles * all.num_segments : std::min(tiles, resident);
  const LaunchShape shape{.grid = dim3(static_cast<unsigned>(blocks)),
                          .threads = kThreads,
                          .shared_bytes = sizeof(FewMemory<kTokens>) + kSwizzleAlignment,
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
