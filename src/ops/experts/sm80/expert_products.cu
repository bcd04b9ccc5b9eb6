#include "ops/experts/sm80/expert_products.h"

#include "base/check.h"
#include "cuda/bf16_vector.cuh"
#include "cuda/kernel_launch.h"
#include "cuda/ptx/grid_dependency.h"
#include "ops/experts/cuda/expert_activation.cuh"
#include "ops/experts/cuda/expert_outputs.cuh"
#include "ops/matmul/cuda/many_tokens.cuh"
#include "ops/matmul/sm80/few_tokens.cuh"
#include "ops/operation/kernel_time.h"

namespace baleen::sm80 {
namespace {

static_assert(kManyTileTokens == LargeTile::kTokens);

/// A block's token tile and the expert that it has.
struct TileExpert {
  TokenTile tile;
  bool is_shared;
  std::int64_t place;

  /// False: there are fewer tiles.
  __device__ bool find(const ExpertProducts& p, int index) {
    if (index >= *p.list.count) return false;
    tile = p.list.tiles[index];
    is_shared = tile.expert == p.num_experts;
    place = is_shared ? 0 : expert_place(p.places, tile.expert);
    return true;
  }
  __device__ const ExpertMatrices& matrices(const ExpertProducts& p) const {
    return is_shared ? p.shared : p.routed;
  }
  __device__ const ExpertOutputs& outputs(const ExpertProducts& p) const {
    return is_shared ? p.y.shared : p.y.routed;
  }
  /// Where outputs of token `token` from `output` on have their place.
  __device__ std::int64_t output_place(const ExpertProducts& p, int token, int output) const {
    return std::int64_t{tile.first_row + token} * p.width + output;
  }
};

template <WeightFormat kWeights>
struct PlacedMatrix {
  const std::byte* data;
  const std::byte* scales;
  std::int64_t row_bytes;
  int num_slices;

  __device__ PlacedMatrix(const ExpertMatrix& matrix, std::int64_t place, int num_inputs)
      : data(matrix.data + place * matrix.distance),
        scales(matrix.scales + place * matrix.scale_distance),
        row_bytes(std::int64_t{num_inputs / kSliceWidth} * (kWeightStrips<kWeights> * kStripBytes)),
        num_slices(num_inputs / kSliceWidth) {}

  [[nodiscard]] __device__ const std::byte* row(int output) const { return data + output * row_bytes; }
  [[nodiscard]] __device__ const std::uint8_t* group_scales(int output) const {
    return reinterpret_cast<const std::uint8_t*>(scales) + std::int64_t{output} * (4 * num_slices);
  }
  [[nodiscard]] __device__ const float* block_scales(int output) const {
    return reinterpret_cast<const float*>(scales) + output / kSliceWidth * num_slices;
  }
  /// The lane's rows of the 16 from `first` on.
  [[nodiscard]] __device__ LaneRows<kWeights> lane_rows(int first) const {
    LaneRows<kWeights> lane;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int output = first + static_cast<int>(threadIdx.x) % kWarpLanes / 4 + 8 * half;
      lane.rows[half] = row(output);
      if constexpr (kWeights == WeightFormat::kFp4) lane.group_scales[half] = group_scales(output);
    }
    if constexpr (kWeights == WeightFormat::kFp8) lane.block_scales = block_scales(first);
    return lane;
  }
};

/// Rows of a token tile, `width` codes each.
template <int kTiles>
__device__ LaneTokens<kTiles> lane_tokens(const Fp8Rows& rows, std::int64_t width, const TokenTile& tile) {
  LaneTokens<kTiles> tokens;
  tokens.count = tile.num_rows;
  tokens.scales = rows.scales + tile.first_row;
  tokens.scale_stride = rows.scale_stride;
#pragma unroll
  for (int i = 0; i < kTiles; ++i) {
    const int token = i * kTileTokens + static_cast<int>(threadIdx.x) % kWarpLanes / 4;
    tokens.rows[i] = token < tile.num_rows
                         ? reinterpret_cast<const std::byte*>(rows.codes + (tile.first_row + token) * width)
                         : nullptr;
  }
  return tokens;
}

__device__ void store_inner(const ExpertProducts& p, const TokenTile& tile, int token, int output, float gate,
                            float up) {
  const std::int64_t row = tile.first_row + token;
  p.inner[row * p.inner_pitch + output] = activate(gate, up, clamp_limit(p.swiglu_limit), p.row_weight[row]);
}

/// The same for four outputs.
__device__ void store_inner(const ExpertProducts& p, const TokenTile& tile, int token, int output,
                            const float4& gate, const float4& up) {
  const std::int64_t row = tile.first_row + token;
  const float limit = clamp_limit(p.swiglu_limit), weight = p.row_weight[row];
  const auto pair = [&](float gate_0, float up_0, float gate_1, float up_1) {
    return activate(gate_0, up_0, limit, weight) |
           static_cast<std::uint32_t>(activate(gate_1, up_1, limit, weight)) << 16;
  };
  *reinterpret_cast<uint2*>(p.inner + row * p.inner_pitch + output) = {pair(gate.x, up.x, gate.y, up.y),
                                                                       pair(gate.z, up.z, gate.w, up.w)};
}
template <WeightFormat kWeights, int kTiles>
__device__ void inner_few(const ExpertProducts& p, const TileExpert& expert,
                          FewTokensShared<kTiles, 2>& shared) {
  const int first = static_cast<int>(blockIdx.x) * kTileOutputs;
  const ExpertMatrices& matrices = expert.matrices(p);
  if (first >= matrices.inner_width) return;
  const PlacedMatrix<kWeights> gate(matrices.gate, expert.place, p.width);
  const PlacedMatrix<kWeights> up(matrices.up, expert.place, p.width);
  const LaneRows<kWeights> rows[2] = {gate.lane_rows(first), up.lane_rows(first)};
  multiply_few_tokens<kWeights, true, kTiles, 2>(
      rows, lane_tokens<kTiles>(p.x, p.width, expert.tile), gate.num_slices, shared,
      [&](int row, int token, const float(&sums)[2]) {
        store_inner(p, expert.tile, token, first + row, sums[0], sums[1]);
      });
}

template <WeightFormat kWeights, int kTiles>
__device__ void down_few(const ExpertProducts& p, const TileExpert& expert,
                         FewTokensShared<kTiles, 1>& shared) {
  const int first = static_cast<int>(blockIdx.x) * kTileOutputs;
  const ExpertMatrices& matrices = expert.matrices(p);
  const PlacedMatrix<kWeights> down(matrices.down, expert.place, matrices.inner_width);
  const LaneRows<kWeights> rows[1] = {down.lane_rows(first)};
  multiply_few_tokens<kWeights, true, kTiles, 1>(
      rows, lane_tokens<kTiles>(p.inner_fp8, p.inner_pitch, expert.tile), down.num_slices, shared,
      [&](int row, int token, const float(&sums)[1]) {
        store_output(expert.outputs(p), expert.output_place(p, token, first + row), sums[0]);
      });
}

/// Calls `run(format)`, a constant, with that of the tile's expert.
template <WeightFormat kRouted, class Run>
__device__ void with_format(const TileExpert& expert, Run run) {
  if constexpr (kRouted != WeightFormat::kFp8) {
    if (!expert.is_shared) return run(std::integral_constant<WeightFormat, kRouted>());
  }
  run(std::integral_constant<WeightFormat, WeightFormat::kFp8>());
}

/// Grid: (16 outputs each, token tiles).
template <WeightFormat kRouted, int kTiles>
__global__ void __launch_bounds__(kFewThreads, 2)
    inner_few_kernel(const __grid_constant__ ExpertProducts p, NextAtOnce order) {
  __shared__ FewTokensShared<kTiles, 2> shared;
  order.launch_next();
  ptx::wait_for_previous_kernel();
  TileExpert expert;
  if (!expert.find(p, static_cast<int>(blockIdx.y))) return;
  with_format<kRouted>(expert,
                       [&](auto format) { inner_few<decltype(format)::value, kTiles>(p, expert, shared); });
}

template <WeightFormat kRouted, int kTiles>
__global__ void __launch_bounds__(kFewThreads, 2)
    down_few_kernel(const __grid_constant__ ExpertProducts p, NextAtOnce order) {
  __shared__ FewTokensShared<kTiles, 1> shared;
  order.launch_next();
  ptx::wait_for_previous_kernel();
  TileExpert expert;
  if (!expert.find(p, static_cast<int>(blockIdx.y))) return;
  with_format<kRouted>(expert,
                       [&](auto format) { down_few<decltype(format)::value, kTiles>(p, expert, shared); });
}

template <WeightFormat kWeights>
__device__ ManyTokensWork<kWeights> work_of(const PlacedMatrix<kWeights>& matrix, int first_output,
                                            int num_rows, const Fp8Rows& rows, std::int64_t width,
                                            const TokenTile& tile) {
  ManyTokensWork<kWeights> work{};
  work.rows = matrix.row(first_output);
  work.row_bytes = matrix.row_bytes;
  if constexpr (kWeights == WeightFormat::kFp4) {
    work.group_scales[0] = matrix.group_scales(first_output);
  } else {
    work.block_scales[0] = matrix.block_scales(first_output);
  }
  work.num_rows = num_rows;
  work.tokens = reinterpret_cast<const std::byte*>(rows.codes + tile.first_row * width);
  work.token_bytes = width;
  work.token_scales = rows.scales + tile.first_row;
  work.scale_stride = rows.scale_stride;
  work.num_tokens = tile.num_rows;
  work.num_slices = matrix.num_slices;
  return work;
}

/// Outputs of either matrix in a block of the inner half.
constexpr int kInnerRows = LargeTile::kRows / 2;

/// Calls `run(shape)` with a value of the type of the block's tile: one that has room for the tokens.
template <class Run>
__device__ void with_shape(const TokenTile& tile, Run run) {
  if (tile.num_rows <= HalfTile::kTokens) return run(HalfTile());
  run(LargeTile());
}

template <WeightFormat kWeights>
__device__ void inner_many(const ExpertProducts& p, const TileExpert& expert, std::byte* dynamic) {
  const int first = static_cast<int>(blockIdx.x) * kInnerRows;
  const ExpertMatrices& matrices = expert.matrices(p);
  if (first >= matrices.inner_width) return;
  const PlacedMatrix<kWeights> gate(matrices.gate, expert.place, p.width);
  const PlacedMatrix<kWeights> up(matrices.up, expert.place, p.width);
  ManyTokensWork<kWeights> work = work_of(gate, first, kInnerRows, p.x, p.width, expert.tile);
  work.second_rows = up.row(first);
  if constexpr (kWeights == WeightFormat::kFp4) {
    work.group_scales[1] = up.group_scales(first);
  } else {
    work.block_scales[1] = up.block_scales(first);
  }
  with_shape(expert.tile, [&](auto shape) {
    using Tile = decltype(shape);
    ManyTokens<kWeights, true, Tile> products(work, *reinterpret_cast<ManyTokensShared<Tile>*>(dynamic));
    ManyTokensSums<Tile> sums = {};
    products.multiply(sums);
    products.finish(sums, [&](int token, int row, const float4(&values)[Tile::kRowTiles]) {
      store_inner(p, expert.tile, token, first + row, values[0], values[1]);
    });
  });
}

template <WeightFormat kWeights>
__device__ void down_many(const ExpertProducts& p, const TileExpert& expert, std::byte* dynamic) {
  const int first = static_cast<int>(blockIdx.x) * LargeTile::kRows;
  const ExpertMatrices& matrices = expert.matrices(p);
  const PlacedMatrix<kWeights> down(matrices.down, expert.place, matrices.inner_width);
  const int num_rows = min(LargeTile::kRows, p.width - first);
  const ManyTokensWork<kWeights> work =
      work_of(down, first, num_rows, p.inner_fp8, p.inner_pitch, expert.tile);
  with_shape(expert.tile, [&](auto shape) {
    using Tile = decltype(shape);
    ManyTokens<kWeights, true, Tile> products(work, *reinterpret_cast<ManyTokensShared<Tile>*>(dynamic));
    ManyTokensSums<Tile> sums = {};
    products.multiply(sums);
    products.finish(sums, [&](int token, int row, const float4(&values)[Tile::kRowTiles]) {
      if (row >= num_rows) return;
      store_outputs(expert.outputs(p), expert.output_place(p, token, first + row), values[0], values[1]);
    });
  });
}

/// Grid: (128 outputs of w1 and w3 each, token tiles).
template <WeightFormat kRouted>
__global__ void __launch_bounds__(LargeTile::kThreads, 1)
    inner_many_kernel(const __grid_constant__ ExpertProducts p, NextAtOnce order) {
  extern __shared__ __align__(16) std::byte dynamic[];
  order.launch_next();
  ptx::wait_for_previous_kernel();
  TileExpert expert;
  if (!expert.find(p, static_cast<int>(blockIdx.y))) return;
  with_format<kRouted>(expert, [&](auto format) { inner_many<decltype(format)::value>(p, expert, dynamic); });
}

/// Grid: (256 outputs, token tiles).
template <WeightFormat kRouted>
__global__ void __launch_bounds__(LargeTile::kThreads, 1)
    down_many_kernel(const __grid_constant__ ExpertProducts p, NextAtOnce order) {
  extern __shared__ __align__(16) std::byte dynamic[];
  order.launch_next();
  ptx::wait_for_previous_kernel();
  TileExpert expert;
  if (!expert.find(p, static_cast<int>(blockIdx.y))) return;
  with_format<kRouted>(expert, [&](auto format) { down_many<decltype(format)::value>(p, expert, dynamic); });
}

using Kernel = void (*)(ExpertProducts, NextAtOnce);

void launch(Kernel kernel, std::int64_t num_outputs, int outputs_of_block, int threads,
            std::int64_t shared_bytes, const ExpertProducts& products, CudaContext& context) {
  launch_kernel("multiplying experts", kernel,
                {.grid = dim3(static_cast<unsigned>(pieces_of(num_outputs, outputs_of_block)),
                              static_cast<unsigned>(products.max_tiles)),
                 .threads = threads,
                 .shared_bytes = shared_bytes},
                context.stream, products);
}

constexpr int kFewTiles = kFewTileTokens / kTileTokens;

}  // namespace

void multiply_inner(const ExpertProducts& products, WeightFormat routed_format, TileKind kind,
                    CudaContext& context) {
  const bool fp4 = routed_format == WeightFormat::kFp4;
  if (kind == TileKind::kFew) {
    const Kernel kernel = fp4 ? inner_few_kernel<WeightFormat::kFp4, kFewTiles>
                              : inner_few_kernel<WeightFormat::kFp8, kFewTiles>;
    launch(kernel, products.inner_pitch, kTileOutputs, kFewThreads, 0, products, context);
  } else {
    const Kernel kernel = fp4 ? inner_many_kernel<WeightFormat::kFp4> : inner_many_kernel<WeightFormat::kFp8>;
    launch(kernel, products.inner_pitch, kInnerRows, LargeTile::kThreads, sizeof(ManyTokensShared<LargeTile>),
           products, context);
  }
}

void multiply_down(const ExpertProducts& products, WeightFormat routed_format, TileKind kind,
                   CudaContext& context) {
  const bool fp4 = routed_format == WeightFormat::kFp4;
  if (kind == TileKind::kFew) {
    const Kernel kernel =
        fp4 ? down_few_kernel<WeightFormat::kFp4, kFewTiles> : down_few_kernel<WeightFormat::kFp8, kFewTiles>;
    launch(kernel, products.width, kTileOutputs, kFewThreads, 0, products, context);
  } else {
    const Kernel kernel = fp4 ? down_many_kernel<WeightFormat::kFp4> : down_many_kernel<WeightFormat::kFp8>;
    launch(kernel, products.width, LargeTile::kRows, LargeTile::kThreads, sizeof(ManyTokensShared<LargeTile>),
           products, context);
  }
}

}  // namespace baleen::sm80
