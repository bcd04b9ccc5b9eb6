// FP8 products for few tokens: bound by the bytes of the weights.
//
// A block owns 32 weight rows (16 where there are few) and up to 64 tokens, and goes through all inputs: rows are the
// columns of D here, so that a tile can be as narrow as it takes to occupy every multiprocessor. One warp loads and one
// warpgroup multiplies, a few slices at once. Blocks that have more than a few tokens form clusters: they have the same
// tokens, and each loads a share of them, for all.
//
//        K ──►  stage 0        stage 1        stage 2
//    32 rows   ┌──────────────┬──────────────┬──────────────┬──
//    of W      │ two slices   │              │              │      block r of a cluster loads chunk r of the stage's
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
#define FP8_CLUSTER 1
#endif

namespace baleen {
namespace {

constexpr int kConsumerWarps = 4;
constexpr int kConsumers = 32 * kConsumerWarps;
constexpr int kThreads = kConsumers + 32;
constexpr int kBlocksPerSm = 2;
constexpr int kSwizzleAlignment = 1024;

/// A block's tile, and its shared memory.
template <int kTileTokens, int kTileRows>
struct FewShape {
  static constexpr int kRows = kTileRows;
  static constexpr int kTokens = kTileTokens;
  static constexpr int kCluster = kTokens <= 16 ? 1 : FP8_CLUSTER;
  static constexpr int kStageSlices = 2;
  static constexpr int kScaleTokens = std::max(kTokens, 16);  ///< copies begin on 128 bytes
  static constexpr int kWeightBytes = kStageSlices * kRows * kSliceInputs;
  static constexpr int kTokenBytes = kStageSlices * kTokens * kSliceInputs;
  static constexpr int kScaleBytes = kStageSlices * kScaleTokens * 4;
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
    float token_scales[kStages][kStageSlices][kScaleTokens];
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

/// Goes through the stages of a block's tiles.
template <class Shape>
struct StageReader {
  static constexpr int kSums = Shape::kRows / 2;  ///< of a thread, and a slice
  using Products = float[Shape::kStageSlices][kSums];
  /// s_x s_w of this thread's two tokens.
  struct Scales {
    float upper[Shape::kStageSlices];
    float lower[Shape::kStageSlices];
  };

  typename Shape::Memory& memory;
  std::uint64_t tokens;   ///< descriptor of stage 0
  std::uint64_t weights;  ///< the same
  int token;              ///< of this thread's two: the other is the eighth after it
  typename Shape::Ring at{};

  __device__ explicit StageReader(typename Shape::Memory& shared)
      : memory(shared),
        tokens(slice_descriptor(shared.tokens)),
        weights(slice_descriptor(shared.weights)),
        token(static_cast<int>(threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4)) {}

  /// Waits for a stage and starts its products: side by side, because one of so few columns is soon done, but late.
  __device__ void start(const typename Shape::Ring& position, Products& products) const {
    constexpr int kStepBytes = 32;  // inputs of one instruction
    ptx::mbarrier_wait(&memory.full[position.stage], position.round % 2);
    const std::uint64_t first = static_cast<std::uint64_t>(position.stage) * Shape::kStageSlices;
    ptx::wgmma_fence();
#pragma unroll
    for (int step = 0; step < kSliceInputs / kStepBytes; ++step) {
#pragma unroll
      for (int i = 0; i < Shape::kStageSlices; ++i) {
        const std::uint64_t offset = step * kStepBytes / 16, slice = first + static_cast<std::uint64_t>(i);
        ptx::wgmma_e4m3<Shape::kRows>(
            products[i], tokens + slice * (sizeof(memory.tokens[0][0]) / 16) + offset,
            weights + slice * (sizeof(memory.weights[0][0]) / 16) + offset, step > 0);
      }
    }
    ptx::wgmma_commit();
  }
  /// Of a stage that has been started. `weight_scales`: of the slices from a multiple of 32 on.
  [[nodiscard]] __device__ Scales scales(int slice, float weight_scales) const {
    Scales found;
#pragma unroll
    for (int i = 0; i < Shape::kStageSlices; ++i) {
      const float weight_scale = __shfl_sync(0xFFFFFFFFu, weight_scales, (slice + i) % 32);
      // Tokens beyond the tile have those of another stage, and sums that nobody stores.
      const float* s_x = &memory.token_scales[at.stage][i][token % Shape::kScaleTokens];
      found.upper[i] = s_x[0] * weight_scale;
      found.lower[i] = s_x[8] * weight_scale;
    }
    return found;
  }
  /// Adds the first `count` products of a stage, which have been waited for, and gives the stage back.
  __device__ void finish(float (&sum)[kSums], Products& products, const Scales& scale,
                         int count = Shape::kStageSlices) {
#pragma unroll
    for (int i = 0; i < Shape::kStageSlices; ++i) hold_slice(products[i]);
    __syncwarp();
    const std::uint32_t lane = threadIdx.x % 32;
    if constexpr (Shape::kCluster == 1) {
      if (lane == 0) ptx::mbarrier_arrive(&memory.empty[at.stage]);
    } else {
      if (lane < Shape::kCluster) ptx::mbarrier_arrive_cluster_read(&memory.empty[at.stage], lane);
    }
    at.advance();
#pragma unroll
    for (int i = 0; i < Shape::kStageSlices; ++i) {
      if (i >= count) break;
#pragma unroll
      for (int j = 0; j < kSums; ++j) {
        sum[j] = fmaf(products[i][j], j % 4 < 2 ? scale.upper[i] : scale.lower[i], sum[j]);
      }
    }
  }
};

/// The sums of a tile: the next stage's products are under way while those of one are added. `weight_scales`: of the first
/// slices.
template <class Shape, int kSums>
__device__ void multiply_tile(const Fp8Products& all, const FewTile& tile, StageReader<Shape>& reader,
                              float weight_scales, float (&sum)[kSums]) {
  constexpr int kStep = Shape::kStageSlices;
  const int num_slices = all.num_slices;
  typename StageReader<Shape>::Products even, odd;
#pragma unroll
  for (int i = 0; i < kSums; ++i) sum[i] = 0.0F;
  const auto scales = [&](int slice) {
    if (slice > 0 && slice % 32 == 0) weight_scales = load_weight_scales(all, tile, slice);
    return reader.scales(slice, weight_scales);
  };
  typename Shape::Ring next = reader.at;
  reader.start(next, even);
  auto scale = scales(0);
  // Nothing is asked inside about what is under way: the compiler would wait for all of it where paths meet.
  int slice = 0;
#pragma unroll 1
  for (; slice + 2 * kStep < num_slices; slice += 2 * kStep) {
    next.advance();
    reader.start(next, odd);
    ptx::wgmma_wait<1>();
    reader.finish(sum, even, scale);
    scale = scales(slice + kStep);
    next.advance();
    reader.start(next, even);
    ptx::wgmma_wait<1>();
    reader.finish(sum, odd, scale);
    scale = scales(slice + 2 * kStep);
  }
  if (slice + kStep < num_slices) {
    next.advance();
    reader.start(next, odd);
    ptx::wgmma_wait<1>();
    reader.finish(sum, even, scale);
    scale = scales(slice + kStep);
    ptx::wgmma_wait<0>();
    reader.finish(sum, odd, scale, num_slices - slice - kStep);
  } else {
    ptx::wgmma_wait<0>();
    reader.finish(sum, even, scale, num_slices - slice);
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
  // The shuffle tells the compiler that it is the same for a warp: it then computes descriptors once and not 32 times.
  const int warp = __shfl_sync(0xFFFFFFFFu, static_cast<int>(threadIdx.x) / 32, 0);
  if (warp == kConsumerWarps) {
    if (threadIdx.x == kConsumers) load_stages<Shape>(all, token_scales, tiles, work, memory);
  } else {
    StageReader<Shape> reader(memory);
    float weight_scales = load_weight_scales(all, tiles[work.first], 0);
    for (int index = work.first; index < work.size; index += work.step) {
      const float next_scales = load_weight_scales(all, tiles[min(index + work.step, work.size - 1)], 0);
      float sum[kRows / 2];
      multiply_tile<Shape>(all, tiles[index], reader, weight_scales, sum);
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
                      4 * Shape::kScaleTokens, TileSwizzle::kNone);
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
