// Both products of experts whose activations have a scale per 32, for many tokens: tiles of 64, whose weights
// are brought to BF16 once for all of them (ops/matmul/cuda/many_tokens.cuh). Operands, their order in the
// tensor cores' instructions and the order of slices are those of smaller tiles (expert_dequantised.cuh), and
// so are the bits.
#include <cstddef>
#include <type_traits>

#include "base/check.h"
#include "cuda/kernel_launch.h"
#include "cuda/ptx/grid_dependency.h"
#include "ops/experts/cuda/expert_dequantised.cuh"
#include "ops/experts/sm80/groups_many.h"
#include "ops/matmul/cuda/many_tokens.cuh"

namespace baleen::sm80 {
namespace {

static_assert(kManyGroupTokens == LargeTile::kTokens);
static_assert(kFp4Shift == dequantised::kFp4Shift && kGroupTokenShift == dequantised::kTokenShift);

/// Outputs of either matrix in a block of the inner half: what is quantised together.
constexpr int kInnerRows = LargeTile::kRows / 2;
static_assert(kInnerRows == kActivationGroup);

struct Shared {
  union {
    ManyTokensShared<LargeTile> large;
    ManyTokensShared<HalfTile> half;
  };

  /// Inner values of a tile's tokens. Behind the products: they lie where tokens were, which no warp reads
  /// any more, while weights' places are still taken by sums on their way out.
  using Inner = Bf16Bits[LargeTile::kTokens][kActivationGroup];
  [[nodiscard]] __device__ Inner& inner() { return *reinterpret_cast<Inner*>(large.tokens); }
};
static_assert(sizeof(Shared::Inner) <= sizeof(ManyTokensShared<LargeTile>::tokens));
static_assert(sizeof(Shared::Inner) / 2 <= sizeof(ManyTokensShared<HalfTile>::tokens));
static_assert(offsetof(ManyTokensShared<LargeTile>, tokens) == offsetof(ManyTokensShared<HalfTile>, tokens));

/// A matrix of the tile's expert.
template <WeightFormat kWeights>
struct PlacedRows {
  const std::byte* rows;
  const std::uint8_t* scales;
  std::int64_t row_bytes;
  int num_slices;

  __device__ PlacedRows(const dequantised::Matrix& matrix, int place, int num_inputs)
      : rows(reinterpret_cast<const std::byte*>(matrix.codes + place * matrix.code_distance)),
        scales(static_cast<const std::uint8_t*>(matrix.scales) + place * matrix.scale_distance),
        row_bytes(std::int64_t{num_inputs / kSliceWidth} * (kWeightStrips<kWeights> * kStripBytes)),
        num_slices(num_inputs / kSliceWidth) {}

  [[nodiscard]] __device__ const std::byte* row(int output) const { return rows + output * row_bytes; }
  /// Those of `output`, the first row of a block where blocks of rows share them.
  [[nodiscard]] __device__ const std::uint8_t* row_scales(int output) const {
    const int of_scales = kWeights == WeightFormat::kFp4 ? output : output / kBlockOutputs;
    return scales + std::int64_t{of_scales} * (4 * num_slices);
  }
};

/// Of `num_rows` rows of `matrix` from `first` on, and of a tile's tokens.
template <WeightFormat kWeights>
__device__ ManyTokensWork<kWeights> work_of(const PlacedRows<kWeights>& matrix, int first, int num_rows,
                                            const Fp8Rows& tokens, std::int64_t width,
                                            const TokenTile& tile) {
  ManyTokensWork<kWeights> work{};
  work.rows = matrix.row(first);
  work.row_bytes = matrix.row_bytes;
  work.group_scales[0] = matrix.row_scales(first);
  work.num_rows = num_rows;
  work.tokens = reinterpret_cast<const std::byte*>(tokens.codes + tile.first_row * width);
  work.token_bytes = width;
  work.token_scales = tokens.scales + tile.first_row;
  work.scale_stride = tokens.scale_stride;
  work.num_tokens = tile.num_rows;
  work.num_slices = matrix.num_slices;
  return work;
}

/// Multiplies in a shape that has room for the tokens, and calls `store(token, row, values)` for all outputs.
template <WeightFormat kWeights, class Store>
__device__ void multiply(const ManyTokensWork<kWeights>& work, Shared& shared, Store store) {
  const auto by = [&](auto shape, auto& memory) {
    using Tile = decltype(shape);
    ManyTokens<kWeights, true, Tile, ProductOrder> products(work, memory);
    ManyTokensSums<Tile> sums = {};
    products.multiply(sums);
    products.finish(sums, store);
  };
  if (work.num_tokens <= HalfTile::kTokens) {
    by(HalfTile(), shared.half);
  } else {
    by(LargeTile(), shared.large);
  }
}

template <WeightFormat kWeights>
__device__ void multiply_inner(const dequantised::Params& p, const dequantised::Matrix (&matrices)[3],
                               const TokenTile& tile, int place, Shared& shared) {
  const int first = static_cast<int>(blockIdx.x) * kInnerRows;
  const PlacedRows<kWeights> gate(matrices[0], place, p.width), up(matrices[1], place, p.width);
  ManyTokensWork<kWeights> work = work_of(gate, first, kInnerRows, p.x, p.width, tile);
  work.second_rows = up.row(first);
  work.group_scales[1] = up.row_scales(first);
  Shared::Inner& inner = shared.inner();
  const float limit = clamp_limit(p.swiglu_limit);
  multiply<kWeights>(work, shared, [&](int token, int row, const float4(&values)[2]) {
    const float weight = p.row_weight[tile.first_row + token];
    const auto pair = [&](float gate_0, float up_0, float gate_1, float up_1) {
      return activate(gate_0, up_0, limit, weight) |
             static_cast<std::uint32_t>(activate(gate_1, up_1, limit, weight)) << 16;
    };
    *reinterpret_cast<uint2*>(&inner[token][row]) = {
        pair(values[0].x, values[1].x, values[0].y, values[1].y),
        pair(values[0].z, values[1].z, values[0].w, values[1].w)};
  });
  __syncthreads();
  dequantised::quantise_inner<kSmallActivationGroup, kInnerRows>(p, tile, static_cast<int>(blockIdx.x),
                                                                 inner);
}

template <WeightFormat kWeights>
__device__ void multiply_down(const dequantised::Params& p, const dequantised::Matrix (&matrices)[3],
                              const TokenTile& tile, int place, int num_inputs, Shared& shared) {
  const int first = static_cast<int>(blockIdx.x) * LargeTile::kRows;
  const int num_rows = min(LargeTile::kRows, p.width - first);
  const PlacedRows<kWeights> down(matrices[2], place, num_inputs);
  multiply<kWeights>(work_of(down, first, num_rows, p.inner, p.inner_pitch, tile), shared,
                     [&](int token, int row, const float4(&values)[2]) {
                       if (row >= num_rows) return;
                       store_outputs(p.outputs(tile), p.output_place(tile, token, first + row), values[0],
                                     values[1]);
                     });
}

/// Grid: (pieces of the inner half or of the down half, token tiles).
template <WeightFormat kRouted, bool kDown>
__global__ void __launch_bounds__(LargeTile::kThreads, 1)
    many_groups_kernel(const __grid_constant__ dequantised::Params p, NextAtOnce order) {
  extern __shared__ __align__(16) std::byte dynamic[];
  auto& shared = *reinterpret_cast<Shared*>(dynamic);
  order.launch_next();
  ptx::wait_for_previous_kernel();
  if (static_cast<int>(blockIdx.y) >= *p.num_tiles) return;
  const TokenTile tile = p.tiles[blockIdx.y];
  const int inner_width = p.is_shared(tile) ? p.shared_inner_width : p.inner_width;
  if (!kDown && static_cast<int>(blockIdx.x) * kInnerRows >= inner_width) return;
  const auto multiply_half = [&](auto format, const dequantised::Matrix(&matrices)[3], int place) {
    constexpr WeightFormat kFormat = decltype(format)::value;
    if constexpr (kDown) {
      multiply_down<kFormat>(p, matrices, tile, place, inner_width, shared);
    } else {
      multiply_inner<kFormat>(p, matrices, tile, place, shared);
    }
  };
  if (p.is_shared(tile)) {
    multiply_half(std::integral_constant<WeightFormat, WeightFormat::kFp8x32>(), p.shared, 0);
  } else {
    multiply_half(std::integral_constant<WeightFormat, kRouted>(), p.routed,
                  expert_place(p.places, tile.expert));
  }
}

template <WeightFormat kRouted>
void launch_both(const dequantised::Params& params, std::int64_t max_tiles, CudaContext& context) {
  const auto launch = [&](void (*kernel)(dequantised::Params, NextAtOnce), std::int64_t num_outputs,
                          int outputs_of_block) {
    launch_kernel(
        "multiplying many tokens' experts", kernel,
        {.grid = dim3(static_cast<unsigned>((num_outputs + outputs_of_block - 1) / outputs_of_block),
                      static_cast<unsigned>(max_tiles)),
         .threads = LargeTile::kThreads,
         .shared_bytes = sizeof(Shared)},
        context.stream, params);
  };
  launch(many_groups_kernel<kRouted, false>, params.inner_pitch, kInnerRows);
  launch(many_groups_kernel<kRouted, true>, params.width, LargeTile::kRows);
}

}  // namespace

void many_group_expert_products(const ExpertsArgs& args, const DispatchExtents& extents,
                                const ExpertScratch& scratch, CudaContext& context) {
  BALEEN_CHECK_EQ(extents.tile_tokens, kManyGroupTokens);
  const dequantised::Params params =
      dequantised::params_of(args, extents, scratch, scratch.plan.lists.resident);
  const WeightMatrix& first = args.routed[0].w1;
  BALEEN_CHECK_EQ(first.activation_group, kSmallActivationGroup);
  BALEEN_CHECK(args.shared == nullptr || args.shared->w1.activation_group == first.activation_group);
  BALEEN_CHECK(first.format == WeightFormat::kFp4 || first.format == WeightFormat::kFp8x32);
  (first.format == WeightFormat::kFp4
       ? launch_both<WeightFormat::kFp4>
       : launch_both<WeightFormat::kFp8x32>)(params, extents.max_tiles(), context);
}

}  // namespace baleen::sm80
