// FP8 products for few tokens: bound by the bytes of the weights.
//
// A block owns 32 weight rows (16 where there are few) and up to 64 tokens, and goes through all inputs: rows are the
// columns of D here, so that a tile can be as narrow as it takes to occupy every multiprocessor. One warp loads and one
// warpgroup multiplies, a few slices at once. Blocks that have more than a few tokens form clusters: they have the same
// tokens, and each loads a share of them, for all.
//
//        K ──►  stage 0        stage 1        stage 2
//    32 rows   ┌──────────────┬──────────────┬──────────────┬──
//    of W      │ 2 or 4 slices│              │              │      block r of a cluster loads chunk r of the stage's
//              └──────────────┴──────────────┴──────────────┴──    tokens into all blocks
//
// Memory must never idle: weights do not depend on the kernel before this one, so the stages of shared memory are filled
// with them before it has ended, and two blocks share a multiprocessor, of this kernel or one of it and one of the next.

#include <algorithm>

#include "cuda/bf16_vector.cuh"
#include "cuda/kernel_launch.h"
#include "cuda/ptx/cluster.h"
#include "cuda/ptx/grid_dependency.h"
#include "cuda/ptx/mbarrier.h"
#include "cuda/ptx/tma.h"
#include "cuda/tensor_map.h"
#include "ops/linear/fp8_products.h"
#include "ops/linear/fp8_slice.cuh"

#ifndef FP8_CLUSTER
#define FP8_CLUSTER 4
#endif

namespace baleen {
namespace {

constexpr int kConsumerWarps = 4;
constexpr int kConsumers = 32 * kConsumerWarps;
constexpr int kThreads = kConsumers + 32;
constexpr int kBlocksPerSm = 2;
constexpr int kSwizzleAlignment = 1024;

/// A block's tile of kTokens x kRows, and its shared memory.
template <int kTokens, int kRows>
struct FewShape {
  static constexpr int kCluster = kTokens <= 16 ? 1 : FP8_CLUSTER;
  static constexpr int kStageSlices = kTokens <= 16 ? 4 : 2;
  static constexpr int kWeightBytes = kStageSlices * kRows * kSliceInputs;
  static constexpr int kTokenBytes = kStageSlices * kTokens * kSliceInputs;
  static constexpr int kScaleBytes = kStageSlices * kTokens * 4;
  static constexpr int kStageBytes = kWeightBytes + kTokenBytes + kScaleBytes;
  static constexpr int kStages = (104 << 10) / kStageBytes;
  /// What one copy loads of a stage's tokens.
  static constexpr int kLoadedSlices = kCluster == 1 ? kStageSlices : 1;
  static constexpr int kLoadedTokens = kTokens * kStageSlices / kCluster / kLoadedSlices;
  static_assert(kCluster == 1 || kCluster >= kStageSlices);

  struct Memory {
    /// First: the tensor core reads 64 tokens from where a slice of fewer begins. What follows them is multiplied in vain.
    std::uint8_t tokens[kStages][kStageSlices][kTokens * kSliceInputs];
    std::uint8_t weights[kStages][kStageSlices][kRows * kSliceInputs];
    float token_scales[kStages][kStageSlices][kTokens];
    std::uint64_t full[kStages];
    std::uint64_t empty[kStages];  ///< counts the warps of the cluster
  };
  using Ring = RingPosition<kStages>;
};

/// A block's tiles: those of its cluster lie side by side, and the cluster's next are `step` clusters on.
template <class Shape>
struct FewWork {
  int first;
  int step;
  int size;  ///< of all clusters
  int rank;

  __device__ explicit FewWork(const Fp8Products& all, int token_tiles)
      : first(static_cast<int>(blockIdx.x) / Shape::kCluster),
        step(static_cast<int>(gridDim.x) / Shape::kCluster),
        size((all.num_tiles + Shape::kCluster - 1) / Shape::kCluster * token_tiles),
        rank(Shape::kCluster > 1 ? static_cast<int>(ptx::cluster_rank()) : 0) {}
};

/// Where a tile is. Tiles of the same weights follow one another.
struct FewTile {
  int product;
  int first_output;  ///< beyond the last one where the cluster has a block too many: it helps to load
  int first_token;
};

struct FewTiles {
  const Fp8Products& all;
  int token_tiles;
  int tokens;
  int rows;
  int cluster;
  int rank;
  __device__ FewTile operator[](int index) const {
    const int weights = token_tiles == 1 ? index : index / token_tiles;
    const int tile = weights * cluster + rank;
    FewTile found;
    found.product = product_of_tile(all, min(tile, all.num_tiles - 1));
    found.first_output = (tile - all.products[found.product].first_tile) * rows;
    found.first_token = (index - weights * token_tiles) * tokens;
    return found;
  }
};

/// Goes through a block's slices and the stages they use. One thread loads for the whole block: no divisions on its way.
template <class Shape>
struct FewCursor {
  const FewTiles& tiles;
  const FewWork<Shape>& work;
  int num_slices;
  int index;
  FewTile tile;
  int slice = 0;
  typename Shape::Ring ring;

  __device__ FewCursor(const FewTiles& all_tiles, const FewWork<Shape>& block)
      : tiles(all_tiles),
        work(block),
        num_slices(all_tiles.all.num_slices),
        index(block.first),
        tile(all_tiles[block.first]) {}
  [[nodiscard]] __device__ bool at_end() const { return index >= work.size; }
  __device__ void advance() {
    ring.advance();
    slice += Shape::kStageSlices;
    if (slice >= num_slices) {
      slice = 0;
      index += work.step;
      if (!at_end()) tile = tiles[index];
    }
  }
};

/// One thread: keeps the stages full.
template <class Shape>
__device__ void load_stages(const Fp8Products& all, const CUtensorMap& token_scales, const FewTiles& tiles,
                            const FewWork<Shape>& work, typename Shape::Memory& memory) {
  using Cursor = FewCursor<Shape>;
  const auto load_weights = [&](const Cursor& at) {
    std::uint64_t* full = &memory.full[at.ring.stage];
    ptx::mbarrier_arrive_expect(full, Shape::kStageBytes);
    ptx::tma_load(memory.weights[at.ring.stage], all.weights[at.tile.product], full, 0, at.tile.first_output,
                  at.slice, ptx::L2Hint::kEvictFirst);
  };
  const auto load_tokens = [&](const Cursor& at) {
    std::uint64_t* full = &memory.full[at.ring.stage];
    ptx::tma_load(memory.token_scales[at.ring.stage], token_scales, full, 4 * at.tile.first_token, at.slice);
    if constexpr (Shape::kCluster == 1) {
      ptx::tma_load(memory.tokens[at.ring.stage], all.tokens, full, 0, at.tile.first_token, at.slice);
    } else {
      constexpr int kChunks = Shape::kCluster / Shape::kStageSlices;  // of a slice
      constexpr auto kAllBlocks = static_cast<std::uint16_t>((1 << Shape::kCluster) - 1);
      const int slice = work.rank / kChunks, token = work.rank % kChunks * Shape::kLoadedTokens;
      ptx::tma_load_multicast(memory.tokens[at.ring.stage][slice] + token * kSliceInputs, all.tokens, full, 0,
                              at.tile.first_token + token, at.slice + slice, kAllBlocks);
    }
  };

  Cursor weights(tiles, work), tokens(tiles, work);
  for (int i = 0; i < Shape::kStages && !weights.at_end(); ++i, weights.advance()) load_weights(weights);
  ptx::wait_for_previous_kernel();
  for (int i = 0; i < Shape::kStages && !tokens.at_end(); ++i, tokens.advance()) load_tokens(tokens);
  for (; !weights.at_end(); weights.advance()) {
    ptx::mbarrier_wait(&memory.empty[weights.ring.stage], (weights.ring.round + 1) % 2);
    load_weights(weights);
    load_tokens(weights);
  }
}

/// Scales of a tile's slices from `slice` on, one in each lane.
__device__ float load_weight_scales(const Fp8Products& all, const FewTile& tile, int slice) {
  const Fp8Product& product = all.products[tile.product];
  const int lane = static_cast<int>(threadIdx.x % 32);
  const int row = min(tile.first_output, product.num_outputs - 1) / kScaleRows;
  const float* scales = product.weight_scales + static_cast<std::int64_t>(row) * all.num_slices;
  return slice + lane < all.num_slices ? __ldg(scales + slice + lane) : 0.0F;
}

/// The sums of a tile. `weight_scales`: of the first slices.
template <class Shape, int kSums>
__device__ void multiply_tile(const Fp8Products& all, const FewTile& tile, typename Shape::Memory& memory,
                              typename Shape::Ring& at, float weight_scales, float (&sum)[kSums]) {
  const int warp = static_cast<int>(threadIdx.x / 32), lane = static_cast<int>(threadIdx.x % 32);
  const int token = 16 * warp + lane / 4;
  const bool has_tokens = tile.first_token + 16 * warp < all.num_tokens;
  const std::uint64_t first_tokens = slice_descriptor(memory.tokens);
  const std::uint64_t first_weights = slice_descriptor(memory.weights);
#pragma unroll
  for (int i = 0; i < kSums; ++i) sum[i] = 0.0F;
#pragma unroll 1
  for (int slice = 0; slice < all.num_slices; slice += Shape::kStageSlices, at.advance()) {
    if (slice > 0 && slice % 32 == 0) weight_scales = load_weight_scales(all, tile, slice);
    ptx::mbarrier_wait(&memory.full[at.stage], at.round % 2);
    float product[Shape::kStageSlices][kSums];
#pragma unroll
    for (int i = 0; i < Shape::kStageSlices; ++i) {
      const auto index = static_cast<std::uint64_t>(at.stage * Shape::kStageSlices + i);
      start_slice<2 * kSums>(product[i], first_tokens + index * (sizeof(memory.tokens[0][0]) / 16),
                             first_weights + index * (sizeof(memory.weights[0][0]) / 16));
    }
    float upper[Shape::kStageSlices], lower[Shape::kStageSlices];
#pragma unroll
    for (int i = 0; i < Shape::kStageSlices; ++i) {
      const float weight_scale = __shfl_sync(0xFFFFFFFFu, weight_scales, (slice + i) % 32);
      const float* s_x = &memory.token_scales[at.stage][i][0];
      upper[i] = has_tokens ? s_x[token] * weight_scale : 0.0F;
      lower[i] = has_tokens ? s_x[token + 8] * weight_scale : 0.0F;
    }
    ptx::wgmma_wait<0>();
#pragma unroll
    for (int i = 0; i < Shape::kStageSlices; ++i) hold_slice(product[i]);
    __syncwarp();
    if constexpr (Shape::kCluster == 1) {
      if (lane == 0) ptx::mbarrier_arrive(&memory.empty[at.stage]);
    } else {
      if (lane < Shape::kCluster) ptx::mbarrier_arrive_cluster_read(&memory.empty[at.stage], lane);
    }
    if (!has_tokens) continue;
#pragma unroll
    for (int i = 0; i < Shape::kStageSlices; ++i) {
      if (slice + i >= all.num_slices) break;
#pragma unroll
      for (int j = 0; j < kSums; ++j) sum[j] = fmaf(product[i][j], j % 4 < 2 ? upper[i] : lower[i], sum[j]);
    }
  }
}

/// Each thread its own: pairs of outputs of two tokens.
template <int kSums>
__device__ void store_tile(const Fp8Products& all, const FewTile& tile, const float (&sum)[kSums]) {
  const Fp8Product& product = all.products[tile.product];
  const int warp = static_cast<int>(threadIdx.x / 32), lane = static_cast<int>(threadIdx.x % 32);
#pragma unroll
  for (int i = 0; i < kSums; i += 2) {
    const int token = tile.first_token + 16 * warp + lane / 4 + (i % 4 < 2 ? 0 : 8);
    const int output = tile.first_output + i / 4 * 8 + lane % 4 * 2;
    if (token >= all.num_tokens || output >= product.num_outputs) continue;
    const std::int64_t at = token * product.y_stride + output;
    if (product.y_f32) {
      *reinterpret_cast<float2*>(reinterpret_cast<float*>(product.y) + at) = {sum[i], sum[i + 1]};
    } else {
      *reinterpret_cast<std::uint32_t*>(reinterpret_cast<__nv_bfloat16*>(product.y) + at) =
          pack_bf16(sum[i], sum[i + 1]);
    }
  }
}

template <int kTokens, int kRows>
__global__ void __launch_bounds__(kThreads, kBlocksPerSm)
    fp8_products_few_kernel(const __grid_constant__ Fp8Products all,
                            const __grid_constant__ CUtensorMap token_scales) {
  using Shape = FewShape<kTokens, kRows>;
  using Memory = typename Shape::Memory;
  extern __shared__ std::uint8_t shared[];
  const std::uint32_t misaligned = ptx::shared_address(shared) % kSwizzleAlignment;
  auto& memory = *reinterpret_cast<Memory*>(shared + (kSwizzleAlignment - misaligned) % kSwizzleAlignment);
  const int token_tiles = (all.num_tokens + kTokens - 1) / kTokens;
  const FewWork<Shape> work(all, token_tiles);
  const FewTiles tiles{all, token_tiles, kTokens, kRows, Shape::kCluster, work.rank};

  ptx::launch_next_kernel();
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < Shape::kStages; ++stage) {
      ptx::mbarrier_init(&memory.full[stage], 1);
      ptx::mbarrier_init(&memory.empty[stage], Shape::kCluster * kConsumerWarps);
    }
    ptx::fence_mbarrier_init();
  }
  if constexpr (Shape::kCluster > 1) {
    ptx::cluster_sync();
  } else {
    __syncthreads();
  }
  if (threadIdx.x >= kConsumers) {
    if (threadIdx.x == kConsumers) load_stages<Shape>(all, token_scales, tiles, work, memory);
  } else {
    typename Shape::Ring at;
    float weight_scales = load_weight_scales(all, tiles[work.first], 0);
    for (int index = work.first; index < work.size; index += work.step) {
      const float next_scales = load_weight_scales(all, tiles[min(index + work.step, work.size - 1)], 0);
      float sum[kRows / 2];
      multiply_tile<Shape>(all, tiles[index], memory, at, weight_scales, sum);
      store_tile(all, tiles[index], sum);
      weight_scales = next_scales;
    }
  }
  if constexpr (Shape::kCluster > 1) {
    __syncwarp();
    ptx::cluster_sync();  // the others' arrivals have come
  }
}

template <int kTokens, int kRows>
void launch_few(std::span<const LinearOutput> outputs, const Fp8Rows& x, std::int64_t num_tokens,
                CudaContext& context) {
  using Shape = FewShape<kTokens, kRows>;
  const Fp8Products all = describe_products(outputs, x, num_tokens,
                                            {.rows = kRows,
                                             .row_slices = Shape::kStageSlices,
                                             .tokens = Shape::kLoadedTokens,
                                             .token_slices = Shape::kLoadedSlices});
  const CUtensorMap token_scales =
      make_tensor_map(x.scales, all.num_slices, 4 * x.scale_stride, 4 * x.scale_stride, Shape::kStageSlices,
                      4 * kTokens, TileSwizzle::kNone);
  const std::int64_t tiles =
      (all.num_tiles + Shape::kCluster - 1) / Shape::kCluster * ((num_tokens + kTokens - 1) / kTokens);
  const std::int64_t resident = std::int64_t{kBlocksPerSm} * context.num_sms / Shape::kCluster;
  const LaunchShape shape{.grid = dim3(static_cast<unsigned>(std::min(tiles, resident) * Shape::kCluster)),
                          .threads = kThreads,
                          .shared_bytes = sizeof(typename Shape::Memory) + kSwizzleAlignment,
                          .cluster = Shape::kCluster};
  launch_kernel("FP8 products for few tokens", fp8_products_few_kernel<kTokens, kRows>, shape, context.stream,
                all, token_scales);
}

template <int kRows>
void launch_few(std::span<const LinearOutput> outputs, const Fp8Rows& x, std::int64_t num_tokens,
                CudaContext& context) {
  if (num_tokens <= 8) {
    launch_few<8, kRows>(outputs, x, num_tokens, context);
  } else if (num_tokens <= 16) {
    launch_few<16, kRows>(outputs, x, num_tokens, context);
  } else if (num_tokens <= 32) {
    launch_few<32, kRows>(outputs, x, num_tokens, context);
  } else {
    launch_few<64, kRows>(outputs, x, num_tokens, context);
  }
}

}  // namespace

void fp8_products_few(std::span<const LinearOutput> outputs, const Fp8Rows& x, std::int64_t num_tokens,
                      CudaContext& context) {
  constexpr int kNarrow = 16, kWide = 32;
  std::int64_t rows = 0;
  for (const LinearOutput& output : outputs) rows += output.weight->rows;
  // Blocks for three multiprocessors in four are enough.
  const bool wide = 4 * rows >= 3 * std::int64_t{kWide} * context.num_sms;
  (wide ? launch_few<kWide> : launch_few<kNarrow>)(outputs, x, num_tokens, context);
}

}  // namespace baleen
