// FP8 products for few tokens: bound by the bytes of the weights.
//
// A block owns 16, 32 or 64 weight rows and up to 64 tokens, and goes through all inputs. Rows are the
// columns of D here, so that a tile can be as narrow as it takes to occupy every multiprocessor. One warp
// loads and one warpgroup multiplies.
//
//        K ──►  stage 0        stage 1        stage 2
//    rows      ┌──────────────┬──────────────┬──────────────┬──
//    of W      │ 1 or 2 slices│              │              │
//              └──────────────┴──────────────┴──────────────┴──
//
// Memory must never idle: weights do not depend on the kernel before this one, so the stages of shared memory
// are filled with them before it has ended, and two blocks share a multiprocessor, of this kernel or one of
// it and one of the next.

#include <algorithm>

#include "cuda/bf16_vector.cuh"
#include "cuda/kernel_launch.h"
#include "cuda/pipeline_ring.cuh"
#include "cuda/ptx/grid_dependency.h"
#include "cuda/ptx/tma.h"
#include "cuda/tensor_map.h"
#include "ops/linear/sm90/fp8_products.h"
#include "ops/linear/sm90/fp8_slice.cuh"
#include "ops/linear/sm90/linear_time.h"

namespace baleen::sm90 {
namespace {

using namespace linear_kernels;

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
  /// More would take more registers than two blocks a multiprocessor have.
  static constexpr int kStageSlices = kRows == 64 ? 1 : 2;
  static constexpr int kScaleTokens = std::max(kTokens, 32 / kStageSlices);  ///< copies begin on 128 bytes
  static constexpr int kWeightBytes = kStageSlices * kRows * kSliceInputs;
  static constexpr int kTokenBytes = kStageSlices * kTokens * kSliceInputs;
  static constexpr int kScaleBytes = kStageSlices * kScaleTokens * 4;
  static constexpr int kStageBytes = kWeightBytes + kTokenBytes + kScaleBytes;
  static constexpr int kStages = (104 << 10) / kStageBytes;

  struct Memory {
    /// First: the tensor core reads 64 tokens from where a slice of fewer begins. What follows them is
    /// multiplied in vain.
    std::uint8_t tokens[kStages][kStageSlices][kTokens * kSliceInputs];
    std::uint8_t weights[kStages][kStageSlices][kRows * kSliceInputs];
    float token_scales[kStages][kStageSlices][kScaleTokens];
    RingBarriers<kStages> ring;
  };
};

/// Where a tile is. Tiles of the same weights follow one another.
struct FewTile {
  int product;
  int first_output;
  int first_token;
};

/// A block's tiles: every gridDim.x-th.
template <class Shape>
struct FewWork {
  const Fp8Products& all;
  int token_tiles;
  int size;  ///< how many tiles all blocks have

  __device__ explicit FewWork(const Fp8Products& products)
      : all(products),
        token_tiles((products.num_tokens + Shape::kTokens - 1) / Shape::kTokens),
        size(products.num_tiles * token_tiles) {}
  __device__ FewTile operator[](int index) const {
    const int tile = token_tiles == 1 ? index : index / token_tiles;
    const int product = product_of_tile(all, tile);
    return {product, (tile - all.products[product].first_tile) * Shape::kRows,
            (index - tile * token_tiles) * Shape::kTokens};
  }
};

/// Goes through a block's slices and the stages they use.
template <class Shape>
struct FewCursor {
  const FewWork<Shape>& work;
  int index = static_cast<int>(blockIdx.x);
  FewTile tile;
  int slice = 0;
  RingPlace place{};  ///< slices count on from tile to tile

  __device__ explicit FewCursor(const FewWork<Shape>& block) : work(block), tile(block[index]) {}
  [[nodiscard]] __device__ bool at_end() const { return index >= work.size; }
  __device__ void advance() {
    place.advance(Shape::kStages);
    slice += Shape::kStageSlices;
    if (slice >= work.all.num_slices) {
      slice = 0;
      index += static_cast<int>(gridDim.x);
      if (!at_end()) tile = work[index];
    }
  }
};

/// One thread: keeps the stages full.
template <class Shape>
__device__ void load_stages(const Fp8Products& all, const CUtensorMap& token_scales,
                            typename Shape::Memory& memory) {
  using Cursor = FewCursor<Shape>;
  const auto load_weights = [&](const Cursor& at) {
    std::uint64_t* full = memory.ring.full(at.place);
    memory.ring.expect(at.place, Shape::kStageBytes);
    ptx::tma_load(memory.weights[at.place.stage], all.weights[at.tile.product], full, 0, at.tile.first_output,
                  at.slice, ptx::L2Hint::kEvictFirst);
  };
  const auto load_tokens = [&](const Cursor& at) {
    std::uint64_t* full = memory.ring.full(at.place);
    ptx::tma_load(memory.token_scales[at.place.stage], token_scales, full, 4 * at.tile.first_token, at.slice);
    ptx::tma_load(memory.tokens[at.place.stage], all.tokens, full, 0, at.tile.first_token, at.slice);
  };

  const FewWork<Shape> work(all);
  Cursor weights(work), tokens(work);
  for (int i = 0; i < Shape::kStages && !weights.at_end(); ++i, weights.advance()) load_weights(weights);
  ptx::wait_for_previous_kernel();
  for (int i = 0; i < Shape::kStages && !tokens.at_end(); ++i, tokens.advance()) load_tokens(tokens);
  for (; !weights.at_end(); weights.advance()) {
    memory.ring.wait_empty(weights.place);
    load_weights(weights);
    load_tokens(weights);
  }
}

/// Scales of a tile's slices from `slice` on, one in each lane.
__device__ float load_weight_scales(const Fp8Products& all, const FewTile& tile, int slice) {
  const Fp8Product& product = all.products[tile.product];
  const int lane = static_cast<int>(threadIdx.x % 32);
  const float* scales =
      product.weight_scales + static_cast<std::int64_t>(tile.first_output / kSliceInputs) * all.num_slices;
  return slice + lane < all.num_slices ? __ldg(scales + slice + lane) : 0.0F;
}

/// Goes through the stages of a block's tiles.
template <class Shape>
struct StageReader {
  static constexpr int kSums = Shape::kRows / 2;  ///< sums that a thread has of a slice
  using Products = float[Shape::kStageSlices][kSums];
  /// s_x s_w of this thread's two tokens.
  struct Scales {
    float upper[Shape::kStageSlices];
    float lower[Shape::kStageSlices];
  };

  typename Shape::Memory& memory;
  std::uint64_t tokens;   ///< descriptor of stage 0
  std::uint64_t weights;  ///< descriptor of stage 0
  int token;              ///< the first of this thread's two: the other is the eighth after it
  RingPlace at{};

  __device__ explicit StageReader(typename Shape::Memory& shared)
      : memory(shared),
        tokens(slice_descriptor(shared.tokens)),
        weights(slice_descriptor(shared.weights)),
        token(static_cast<int>(threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4)) {}

  /// Waits for a stage and starts its products: side by side, because one of so few columns is soon done, but
  /// late.
  __device__ void start(const RingPlace& position, Products& products) const {
    constexpr int kStepBytes = 32;  // inputs of one instruction
    memory.ring.wait_full(position);
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
      // Tokens beyond the tile have those of another stage, and sums that are not stored.
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
    memory.ring.release(at.stage);
    at.advance(Shape::kStages);
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

/// The sums of a tile: the next stage's products are under way while those of one are added. `weight_scales`:
/// of the first slices.
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
  RingPlace next = reader.at;
  reader.start(next, even);
  auto scale = scales(0);
  // Nothing is asked inside about what is under way: the compiler would wait for all of it where paths meet.
  int slice = 0;
#pragma unroll 1
  for (; slice + 2 * kStep < num_slices; slice += 2 * kStep) {
    next.advance(Shape::kStages);
    reader.start(next, odd);
    ptx::wgmma_wait<1>();
    reader.finish(sum, even, scale);
    scale = scales(slice + kStep);
    next.advance(Shape::kStages);
    reader.start(next, even);
    ptx::wgmma_wait<1>();
    reader.finish(sum, odd, scale);
    scale = scales(slice + 2 * kStep);
  }
  if (slice + kStep < num_slices) {
    next.advance(Shape::kStages);
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
      *reinterpret_cast<std::uint32_t*>(reinterpret_cast<Bf16Bits*>(product.y) + at) =
          pack_bf16(sum[i], sum[i + 1]);
    }
  }
}

template <int kTokens, int kRows>
__global__ void __launch_bounds__(kThreads, kBlocksPerSm)
    fp8_products_few_kernel(const __grid_constant__ Fp8Products all,
                            const __grid_constant__ CUtensorMap token_scales, NextAtOnce order) {
  using Shape = FewShape<kTokens, kRows>;
  using Memory = typename Shape::Memory;
  extern __shared__ std::uint8_t shared[];
  const std::uint32_t misaligned = ptx::shared_address(shared) % kSwizzleAlignment;
  auto& memory = *reinterpret_cast<Memory*>(shared + (kSwizzleAlignment - misaligned) % kSwizzleAlignment);

  order.launch_next();
  if (threadIdx.x == 0) {
    memory.ring.init(1, kConsumerWarps);
    ptx::fence_mbarrier_init();
  }
  __syncthreads();
  // The shuffle tells the compiler that it is the same for a warp: it then computes descriptors once and not
  // 32 times.
  const int warp = __shfl_sync(0xFFFFFFFFu, static_cast<int>(threadIdx.x) / 32, 0);
  if (warp == kConsumerWarps) {
    if (threadIdx.x == kConsumers) load_stages<Shape>(all, token_scales, memory);
  } else {
    StageReader<Shape> reader(memory);
    const FewWork<Shape> work(all);
    FewTile tile = work[static_cast<int>(blockIdx.x)];
    float weight_scales = load_weight_scales(all, tile, 0);
    for (int index = static_cast<int>(blockIdx.x); index < work.size; index += static_cast<int>(gridDim.x)) {
      const FewTile next = work[min(index + static_cast<int>(gridDim.x), work.size - 1)];
      const float next_scales = load_weight_scales(all, next, 0);
      float sum[kRows / 2];
      multiply_tile<Shape>(all, tile, reader, weight_scales, sum);
      store_tile(all, tile, sum);
      tile = next;
      weight_scales = next_scales;
    }
  }
}

template <int kTokens, int kRows>
void launch_few(std::span<const LinearOutput> outputs, const Fp8Rows& x, std::int64_t num_tokens,
                CudaContext& context) {
  using Shape = FewShape<kTokens, kRows>;
  constexpr int kSlices = Shape::kStageSlices;
  const Fp8Products all =
      describe_products(outputs, x, num_tokens,
                        {.rows = kRows, .row_slices = kSlices, .tokens = kTokens, .token_slices = kSlices});
  const CUtensorMap token_scales =
      make_tensor_map(x.scales, all.num_slices, 4 * x.scale_stride, 4 * x.scale_stride, kSlices,
                      4 * Shape::kScaleTokens, TileSwizzle::kNone);
  const std::int64_t tiles = all.num_tiles * ((num_tokens + kTokens - 1) / kTokens);
  const std::int64_t resident = std::int64_t{kBlocksPerSm} * context.num_sms;
  const LaunchShape shape{.grid = dim3(static_cast<unsigned>(std::min(tiles, resident))),
                          .threads = kThreads,
                          .shared_bytes = sizeof(typename Shape::Memory) + kSwizzleAlignment};
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
  std::int64_t rows = 0;
  for (const LinearOutput& output : outputs) rows += output.weight->rows;
  const std::int64_t tile_rows = few_tile_rows(rows, context.num_sms);
  (tile_rows == 64   ? launch_few<64>
   : tile_rows == 32 ? launch_few<32>
                     : launch_few<16>)(outputs, x, num_tokens, context);
}

}  // namespace baleen::sm90
