// FP8 products for few tokens: bound by the bytes of the weights.
//
// A cluster owns a tile of 128 weight rows and up to 64 tokens, each of its blocks a segment of the inputs. In a block
// one warp loads and two warpgroups multiply, 64 rows each. At the end every block reads its share of the rows from all
// blocks and adds the segments in order. Without segments a block takes tile after tile.
//
//        K ──►  segment 0     segment 1     segment 2     segment 3
//    128 rows  ┌───────────┬─────────────┬─────────────┬────────────┐        block r of the cluster finishes
//    of W      │ block 0   │  block 1    │  block 2    │  block 3   │  ───►  rows 32 r .. 32 r + 31
//              └───────────┴─────────────┴─────────────┴────────────┘
//
// Memory must never idle: weights do not depend on the kernel before this one, so the stages of shared memory are filled
// with them before it has ended.

#include <algorithm>
#include <type_traits>

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

/// Shared memory of a block for tiles of `kTokens` tokens.
template <int kTokens, bool kClustered>
struct FewMemory {
  /// Two blocks share a multiprocessor, of this kernel or one of it and one of the next. Clusters of blocks that fill one
  /// each would find too few whole groups of free ones.
  static constexpr int kBlocksPerSm = kTokens <= 32 || kClustered ? 2 : 1;
  static constexpr int kStages = kTokens <= 8    ? 6
                                 : kTokens <= 16 ? 5 + kClustered
                                 : kTokens <= 32 ? 4 + kClustered
                                                 : (kClustered ? 4 : 7);
  static constexpr int kTokenTileBytes = kTokens * kSliceInputs;
  using Sums = float[kTokens][kTileRows];  ///< of the segment, rows where `place_of_row` says
  struct Nothing {};

  union {
    std::uint8_t weights[kStages][kWeightTileBytes];
    Sums sums_after_weights;  ///< of a cluster: its one tile has been multiplied
  };
  std::uint8_t tokens[kStages][kTokenTileBytes];
  std::conditional_t<kClustered, Nothing, Sums> own_sums;
  float token_scales[kStages][kTokens];
  std::uint64_t full[kStages];
  std::uint64_t empty[kStages];

  __device__ Sums& sums() {
    if constexpr (kClustered) {
      return sums_after_weights;
    } else {
      return own_sums;
    }
  }
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

/// Goes through a block's slices and the stages they use. One thread loads for the whole block: no divisions on its way.
template <int kTokens, bool kClustered>
struct FewCursor {
  const Fp8Products& all;
  const FewWork& work;
  int index;
  FewTile tile;
  int slice = 0;  ///< of the segment
  RingPosition<FewMemory<kTokens, kClustered>::kStages> ring;

  __device__ FewCursor(const Fp8Products& products, const FewWork& block)
      : all(products), work(block), index(block.first), tile(products, block.first, kTokens) {}
  [[nodiscard]] __device__ int input() const { return (work.first_slice + slice) * kSliceInputs; }
  __device__ void advance() {
    ring.advance();
    if (++slice == work.num_slices) {
      slice = 0;
      index += work.step;
      if (index < work.tiles) tile = FewTile(all, index, kTokens);
    }
  }
};

/// One thread: keeps the stages full.
template <int kTokens, bool kClustered>
__device__ void load_slices(const Fp8Products& all, const FewWork& work,
                            FewMemory<kTokens, kClustered>& memory) {
  using Memory = FewMemory<kTokens, kClustered>;
  using Cursor = FewCursor<kTokens, kClustered>;
  const auto scale_bytes = [&](const Cursor& at) {
    return static_cast<std::uint32_t>(
        4 * min(static_cast<std::int64_t>(kTokens), all.scale_stride - at.tile.first_token));
  };
  const auto load_weights = [&](const Cursor& at) {
    std::uint64_t* full = &memory.full[at.ring.stage];
    ptx::mbarrier_arrive_expect(full, kWeightTileBytes + Memory::kTokenTileBytes + scale_bytes(at));
    ptx::tma_load(memory.weights[at.ring.stage], all.weights[at.tile.product], full, at.input(),
                  at.tile.first_output, ptx::L2Hint::kEvictFirst);
  };
  const auto load_tokens = [&](const Cursor& at) {
    std::uint64_t* full = &memory.full[at.ring.stage];
    ptx::tma_load(memory.tokens[at.ring.stage], all.tokens, full, at.input(), at.tile.first_token);
    ptx::bulk_load(memory.token_scales[at.ring.stage],
                   all.token_scales + (work.first_slice + at.slice) * all.scale_stride + at.tile.first_token,
                   scale_bytes(at), full);
  };

  const int total = work.total_slices(), at_once = min(Memory::kStages, total);
  Cursor weights(all, work), tokens(all, work);
  for (int i = 0; i < at_once; ++i, weights.advance()) load_weights(weights);
  ptx::wait_for_previous_kernel();
  for (int i = 0; i < at_once; ++i, tokens.advance()) load_tokens(tokens);
  for (int i = at_once; i < total; ++i, weights.advance()) {
    ptx::mbarrier_wait(&memory.empty[weights.ring.stage], (weights.ring.round + 1) % 2);
    load_weights(weights);
    load_tokens(weights);
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

/// sum += slice * s_x * s_w. `token_scales`: of the tile's tokens, which are the columns.
template <int kTokens>
__device__ inline void add_slice(float (&sum)[kTokens / 2], float (&slice)[kTokens / 2],
                                 const float* token_scales, float weight_scale) {
  const int first_token = 2 * static_cast<int>(threadIdx.x % 4);
  hold_slice(slice);
#pragma unroll
  for (int i = 0; i < kTokens / 2; i += 4) {
    const float2 s_x = *reinterpret_cast<const float2*>(token_scales + 2 * i + first_token);
    const float scale[2] = {s_x.x * weight_scale, s_x.y * weight_scale};
#pragma unroll
    for (int j = 0; j < 4; ++j) sum[i + j] = fmaf(slice[i + j], scale[j % 2], sum[i + j]);
  }
}

/// The warpgroup's 64 rows of a segment's sum. `weight_scales`: of the first slices.
template <int kTokens, bool kClustered>
__device__ void multiply_slices(const Fp8Products& all, const FewWork& work, const FewTile& tile,
                                FewMemory<kTokens, kClustered>& memory,
                                RingPosition<FewMemory<kTokens, kClustered>::kStages>& at,
                                float weight_scales, float (&sum)[kTokens / 2]) {
  // The shuffle tells the compiler that it is the same for a warp.
  const int warpgroup = __shfl_sync(0xFFFFFFFFu, static_cast<int>(threadIdx.x) / 128, 0);
  using Memory = FewMemory<kTokens, kClustered>;
  const std::uint64_t weights =
      slice_descriptor(memory.weights[0] + warpgroup * kWarpgroupRows * kSliceInputs);
  const std::uint64_t tokens = slice_descriptor(memory.tokens[0]);
  float product[kTokens / 2];
#pragma unroll
  for (int i = 0; i < kTokens / 2; ++i) sum[i] = 0.0F;
  for (int slice = 0; slice < work.num_slices; ++slice, at.advance()) {
    if (slice > 0 && slice % 32 == 0) weight_scales = load_weight_scales(all, work, tile, slice);
    ptx::mbarrier_wait(&memory.full[at.stage], at.round % 2);
    const auto stage = static_cast<std::uint64_t>(at.stage);
    start_slice<kTokens>(product, weights + stage * (kWeightTileBytes / 16),
                         tokens + stage * (Memory::kTokenTileBytes / 16));
    ptx::wgmma_wait<0>();
    add_slice<kTokens>(sum, product, memory.token_scales[at.stage],
                       __shfl_sync(0xFFFFFFFFu, weight_scales, slice % 32));
    __syncwarp();
    if (threadIdx.x % 32 == 0) ptx::mbarrier_arrive(&memory.empty[at.stage]);
  }
}

/// Rows of a token lie permuted within 32, so that the lanes of a warp, which hold eight rows of four pairs of tokens,
/// meet no bank twice. Eight rows stay together.
__device__ inline int place_of_row(int row, int token) { return row ^ (token / 2 % 4 * 8); }

template <int kTokens, bool kClustered>
__device__ void put_sums(FewMemory<kTokens, kClustered>& memory, const float (&sum)[kTokens / 2]) {
  const int warp = static_cast<int>(threadIdx.x / 32), lane = static_cast<int>(threadIdx.x % 32);
  const int token = 2 * (lane % 4), row = 16 * warp + lane / 4;
  float* upper = &memory.sums()[token][place_of_row(row, token)];
  float* lower = &memory.sums()[token][place_of_row(row + 8, token)];
#pragma unroll
  for (int i = 0; i < kTokens / 2; i += 4) {
    upper[2 * i * kTileRows] = sum[i];
    upper[(2 * i + 1) * kTileRows] = sum[i + 1];
    lower[2 * i * kTileRows] = sum[i + 2];
    lower[(2 * i + 1) * kTileRows] = sum[i + 3];
  }
}

__device__ inline float4 operator+(const float4& a, const float4& b) {
  return {a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w};
}

/// Adds the segments of this block's rows and writes them, four outputs of a token at a time.
template <int kTokens, bool kClustered>
__device__ void finish_rows(const Fp8Products& all, const FewWork& work, const FewTile& tile,
                            FewMemory<kTokens, kClustered>& memory) {
  constexpr int kVector = 4;
  const Fp8Product& product = all.products[tile.product];
  const int num_tokens = min(kTokens, all.num_tokens - tile.first_token);
  const int rows = kTileRows / work.segments;
  const int vectors_shift = __ffs(rows / kVector) - 1;  // a power of two
#pragma unroll 1
  for (int i = static_cast<int>(threadIdx.x); i < num_tokens << vectors_shift; i += kConsumers) {
    const int token = i >> vectors_shift;
    const int row = work.segment * rows + (i - (token << vectors_shift)) * kVector;
    const int output = tile.first_output + row;
    if (output >= product.num_outputs) continue;
    const auto* from = reinterpret_cast<const float4*>(&memory.sums()[token][place_of_row(row, token)]);
    float4 total;
    if constexpr (!kClustered) {
      total = *from;
    } else {
      constexpr int kAtOnce = 4;  // asked for before the first is used
      for (int first = 0; first < work.segments; first += kAtOnce) {
        float4 parts[kAtOnce];
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
          if (first + i < work.segments) parts[i] = ptx::load_from_block(from, first + i);
        }
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
          if (first + i < work.segments) total = first + i == 0 ? parts[i] : total + parts[i];
        }
      }
    }
    const std::int64_t at = (tile.first_token + token) * product.y_stride + output;
    if (product.y_f32) {
      *reinterpret_cast<float4*>(reinterpret_cast<float*>(product.y) + at) = total;
    } else {
      *reinterpret_cast<uint2*>(reinterpret_cast<__nv_bfloat16*>(product.y) + at) = {
          pack_bf16(total.x, total.y), pack_bf16(total.z, total.w)};
    }
  }
}

/// The consumers of a block: their tiles, or the one tile of a cluster.
template <int kTokens, bool kClustered>
__device__ void consume(const Fp8Products& all, const FewWork& work, FewMemory<kTokens, kClustered>& memory) {
  RingPosition<FewMemory<kTokens, kClustered>::kStages> at;
  const auto tile = [&](int index) { return FewTile(all, min(index, work.tiles - 1), kTokens); };
  float weight_scales = load_weight_scales(all, work, tile(work.first), 0);
  for (int index = work.first; index < work.tiles; index += work.step) {
    const float next_scales = load_weight_scales(all, work, tile(index + work.step), 0);
    float sum[kTokens / 2];
    multiply_slices<kTokens, kClustered>(all, work, tile(index), memory, at, weight_scales, sum);
    __syncwarp();
    if constexpr (kClustered) {
      ptx::named_barrier_sync(kConsumerBarrier,
                              kConsumers);  // all have read the weights that the sums replace
      put_sums<kTokens, kClustered>(memory, sum);
      ptx::cluster_sync();
    } else {
      put_sums<kTokens, kClustered>(memory, sum);
      ptx::named_barrier_sync(kConsumerBarrier, kConsumers);
    }
    finish_rows<kTokens, kClustered>(all, work, tile(index), memory);
    if constexpr (!kClustered) ptx::named_barrier_sync(kConsumerBarrier, kConsumers);
    weight_scales = next_scales;
  }
}

template <int kTokens, bool kClustered>
__global__ void __launch_bounds__(kThreads, FewMemory<kTokens, kClustered>::kBlocksPerSm)
    fp8_products_few_kernel(const __grid_constant__ Fp8Products all) {
  using Memory = FewMemory<kTokens, kClustered>;
  extern __shared__ std::uint8_t shared[];
  const std::uint32_t misaligned = ptx::shared_address(shared) % kSwizzleAlignment;
  auto& memory = *reinterpret_cast<Memory*>(shared + (kSwizzleAlignment - misaligned) % kSwizzleAlignment);
  const FewWork work(all, kTokens);

  ptx::launch_next_kernel();
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < Memory::kStages; ++stage) {
      ptx::mbarrier_init(&memory.full[stage], 1);
      ptx::mbarrier_init(&memory.empty[stage], kConsumerWarps);
    }
    ptx::fence_mbarrier_init();
  }
  __syncthreads();
  if (threadIdx.x >= kConsumers) {
    if (threadIdx.x == kConsumers) load_slices<kTokens, kClustered>(all, work, memory);
    __syncwarp();
    if constexpr (kClustered) ptx::cluster_sync();  // that of the consumers
  } else {
    consume<kTokens, kClustered>(all, work, memory);
  }
  if constexpr (kClustered) {
    __syncwarp();
    ptx::cluster_arrive_relaxed();
    ptx::cluster_wait();  // nobody reads this block's sums any more
  }
}

template <int kTokens, bool kClustered>
void launch_few(const Fp8Products& all, std::int64_t num_tokens, CudaContext& context) {
  const std::int64_t tiles = all.num_tiles * ((num_tokens + kTokens - 1) / kTokens);
  const std::int64_t resident = std::int64_t{FewMemory<kTokens, kClustered>::kBlocksPerSm} * context.num_sms;
  const std::int64_t blocks = kClustered ? tiles * all.num_segments : std::min(tiles, resident);
  const LaunchShape shape{.grid = dim3(static_cast<unsigned>(blocks)),
                          .threads = kThreads,
                          .shared_bytes = sizeof(FewMemory<kTokens, kClustered>) + kSwizzleAlignment,
                          .cluster = all.num_segments};
  launch_kernel("FP8 products for few tokens", fp8_products_few_kernel<kTokens, kClustered>, shape,
                context.stream, all);
}

template <int kTokens>
void launch_few(std::span<const LinearOutput> outputs, const Fp8Rows& x, std::int64_t num_tokens,
                CudaContext& context) {
  const Fp8Products all = describe_products(outputs, x, num_tokens, kTileRows, kTokens);
  (all.num_segments > 1 ? launch_few<kTokens, true> : launch_few<kTokens, false>)(all, num_tokens, context);
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
