#include "ops/matmul/sm80/product_list.h"

#include "base/check.h"
#include "cuda/bf16_vector.cuh"
#include "cuda/kernel_launch.h"
#include "cuda/ptx/grid_dependency.h"
#include "ops/matmul/cuda/many_tokens.cuh"
#include "ops/matmul/sm80/few_tokens.cuh"

namespace baleen::sm80 {
namespace {

static_assert(kFewTileOutputs == kTileOutputs);

/// Which product a tile belongs to.
__device__ const ProductList::Product& product_of(const ProductList& list, int tile) {
  int which = list.num_products - 1;
  while (which > 0 && list.products[which].first_tile > tile) --which;
  return list.products[which];
}

__device__ void store_output(const ProductList& list, const ProductList::Product& product, std::int64_t token,
                             int output, float value) {
  const std::int64_t at = token * product.y_stride + output;
  auto* const y = reinterpret_cast<float*>(product.y);
  if (product.y_is_bf16) {
    reinterpret_cast<Bf16Bits*>(product.y)[at] = bf16_bits(value);
  } else {
    y[at] = list.adds ? y[at] + value : value;
  }
}

/// Tokens of the group that output `output` is of.
__device__ const std::byte* tokens_of(const ProductList& list, int output) {
  return list.tokens + output / list.group_outputs * list.group_bytes;
}

/// Grid: (tiles of 16 outputs, passes of 8 kTiles tokens).
template <WeightFormat kWeights, bool kFp8Tokens, int kTiles>
__global__ void __launch_bounds__(kFewThreads, kWeights == WeightFormat::kBF16 && kTiles > 1 ? 1 : 2)
    few_kernel(const __grid_constant__ ProductList list, NextAtOnce order) {
  __shared__ FewTokensShared<kTiles, 1> shared;
  order.launch_next();
  ptx::wait_for_previous_kernel();
  const ProductList::Product& product = product_of(list, static_cast<int>(blockIdx.x));
  const int first_output = (static_cast<int>(blockIdx.x) - product.first_tile) * kTileOutputs;
  const int first_token = static_cast<int>(blockIdx.y) * kTiles * kTileTokens;
  const int group = static_cast<int>(threadIdx.x) % kWarpLanes / 4;
  const std::int64_t row_bytes = std::int64_t{list.num_slices} * (kWeightStrips<kWeights> * kStripBytes);
  LaneRows<kWeights> rows[1];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int output = min(first_output + group + 8 * half, product.num_outputs - 1);
    rows[0].rows[half] = product.weight + output * row_bytes;
  }
  if constexpr (kWeights == WeightFormat::kFp8)
    rows[0].block_scales = product.block_scales + first_output / kSliceWidth * list.num_slices;
  if constexpr (kWeights == WeightFormat::kFp8x32)
    rows[0].group_scales[0] =
        product.group_scales + std::int64_t{first_output / kBlockOutputs} * (4 * list.num_slices);
  LaneTokens<kTiles> tokens;
  tokens.count = min(kTiles * kTileTokens, list.num_tokens - first_token);
#pragma unroll
  for (int tile = 0; tile < kTiles; ++tile) {
    const int token = tile * kTileTokens + group;
    tokens.rows[tile] = token < tokens.count
                            ? tokens_of(list, first_output) + (first_token + token) * list.token_bytes
                            : nullptr;
  }
  if constexpr (kFp8Tokens) {
    tokens.scales = list.token_scales + first_token;
    tokens.scale_stride = list.scale_stride;
  }
  multiply_few_tokens<kWeights, kFp8Tokens, kTiles, 1>(
      rows, tokens, list.num_slices, shared, [&](int row, int token, const float(&sums)[1]) {
        if (first_output + row < product.num_outputs)
          store_output(list, product, first_token + token, first_output + row, sums[0]);
      });
}

/// Four or eight outputs of a token.
template <int kFours>
__device__ void store_outputs(const ProductList& list, const ProductList::Product& product,
                              std::int64_t token, int output, const float4 (&values)[kFours]) {
  const bool whole = output + 4 * kFours <= product.num_outputs;
  if (product.y_takes_vectors && !list.adds && whole) {
    const std::int64_t at = token * product.y_stride + output;
    if (!product.y_is_bf16) {
      auto* const y = reinterpret_cast<float4*>(reinterpret_cast<float*>(product.y) + at);
#pragma unroll
      for (int i = 0; i < kFours; ++i) y[i] = values[i];
      return;
    }
    uint2 words[kFours];
#pragma unroll
    for (int i = 0; i < kFours; ++i)
      words[i] = {pack_bf16(values[i].x, values[i].y), pack_bf16(values[i].z, values[i].w)};
    auto* const y = reinterpret_cast<Bf16Bits*>(product.y) + at;
    if constexpr (kFours == 2) {
      *reinterpret_cast<uint4*>(y) = {words[0].x, words[0].y, words[1].x, words[1].y};
    } else {
      *reinterpret_cast<uint2*>(y) = words[0];
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < 4 * kFours; ++i) {
    const float4& four = values[i / 4];
    const float value = i % 4 == 0 ? four.x : i % 4 == 1 ? four.y : i % 4 == 2 ? four.z : four.w;
    if (output + i < product.num_outputs) store_output(list, product, token, output + i, value);
  }
}

/// Blocks that a multiprocessor is to hold, as registers allow.
template <class Tile>
constexpr int kManyBlocks = Tile::kWarps == 8 ? 1 : 2;

/// A block's tile of outputs and pass over tokens. Blocks that run at the same time share both weights and
/// tokens: kTogether tiles of outputs go through all passes side by side.
struct TileAndPass {
  int tile, pass;

  __device__ TileAndPass(int block, int num_tiles, int num_passes) {
    constexpr int kTogether = 8;
    const int first = block / (kTogether * num_passes) * kTogether;
    const int together = min(kTogether, num_tiles - first);
    const int in_group = block - first * num_passes;
    tile = first + in_group % together;
    pass = in_group / together;
  }
};

template <WeightFormat kWeights, bool kFp8Tokens, class Tile>
__global__ void __launch_bounds__(Tile::kThreads, kManyBlocks<Tile>)
    many_kernel(const __grid_constant__ ProductList list, NextAtOnce order) {
  extern __shared__ __align__(16) std::byte dynamic[];
  auto& shared = *reinterpret_cast<ManyTokensShared<Tile>*>(dynamic);
  order.launch_next();
  ptx::wait_for_previous_kernel();
  const TileAndPass at(static_cast<int>(blockIdx.x), list.num_tiles,
                       static_cast<int>(pieces_of(list.num_tokens, Tile::kTokens)));
  const ProductList::Product& product = product_of(list, at.tile);
  const int first_output = (at.tile - product.first_tile) * Tile::kRows;
  const int first_token = at.pass * Tile::kTokens;
  ManyTokensWork<kWeights> work{};
  work.row_bytes = std::int64_t{list.num_slices} * (kWeightStrips<kWeights> * kStripBytes);
  work.rows = product.weight + first_output * work.row_bytes;
  if constexpr (kWeights == WeightFormat::kFp8)
    work.block_scales[0] = product.block_scales + first_output / kSliceWidth * list.num_slices;
  if constexpr (kWeights == WeightFormat::kFp8x32)
    work.group_scales[0] =
        product.group_scales + std::int64_t{first_output / kBlockOutputs} * (4 * list.num_slices);
  work.num_rows = min(Tile::kRows, product.num_outputs - first_output);
  work.tokens = tokens_of(list, first_output) + first_token * list.token_bytes;
  work.token_bytes = list.token_bytes;
  if constexpr (kFp8Tokens) {
    work.token_scales = list.token_scales + first_token;
    work.scale_stride = list.scale_stride;
  }
  work.num_tokens = min(Tile::kTokens, list.num_tokens - first_token);
  work.num_slices = list.num_slices;
  ManyTokens<kWeights, kFp8Tokens, Tile> products(work, shared);
  ManyTokensSums<Tile> sums = {};
  products.multiply(sums);
  products.finish(sums, [&](int token, int row, const float4(&values)[Tile::kRowTiles]) {
    store_outputs(list, product, first_token + token, first_output + row, values);
  });
}

template <WeightFormat kWeights, bool kFp8Tokens, int kTiles>
void launch_few(const ProductList& list, CudaContext& context) {
  launch_kernel("multiplying few tokens", few_kernel<kWeights, kFp8Tokens, kTiles>,
                {.grid = dim3(static_cast<unsigned>(list.num_tiles),
                              static_cast<unsigned>(pieces_of(list.num_tokens, kTiles * kTileTokens))),
                 .threads = kFewThreads},
                context.stream, list);
}

template <WeightFormat kWeights, bool kFp8Tokens, class Tile>
void launch_tiles(const ProductList& list, CudaContext& context) {
  launch_kernel(
      "multiplying many tokens", many_kernel<kWeights, kFp8Tokens, Tile>,
      {.grid = dim3(static_cast<unsigned>(pieces_of(list.num_tokens, Tile::kTokens) * list.num_tiles)),
       .threads = Tile::kThreads,
       .shared_bytes = sizeof(ManyTokensShared<Tile>)},
      context.stream, list);
}

template <WeightFormat kWeights, bool kFp8Tokens>
void launch_many(const ProductList& list, CudaContext& context) {
  static_assert(LargeTile::kRows == kLargeTileOutputs && SmallTile::kRows == kSmallTileOutputs);
  static_assert(LargeTile::kTokens == kManyPassTokens && SmallTile::kTokens == kManyPassTokens);
  if (list.tile_outputs == kLargeTileOutputs) {
    launch_tiles<kWeights, kFp8Tokens, LargeTile>(list, context);
  } else {
    BALEEN_CHECK_EQ(list.tile_outputs, kSmallTileOutputs);
    launch_tiles<kWeights, kFp8Tokens, SmallTile>(list, context);
  }
}

}  // namespace

void add_product(ProductList& list, const WeightMatrix& weight, const Activations<2>& y) {
  BALEEN_CHECK_LE(list.num_products + 1, kMaxListedProducts);
  BALEEN_CHECK_EQ(reinterpret_cast<std::uintptr_t>(weight.data) % 16, 0);
  BALEEN_CHECK_EQ(y.extent(1), weight.rows);
  list.products[list.num_products++] = {
      .weight = weight.data,
      .block_scales = weight.block_scales,
      .group_scales = weight.group_scales,
      .y = y.address(),
      .y_stride = y.stride(0),
      .num_outputs = static_cast<std::int32_t>(weight.rows),
      .first_tile = list.num_tiles,
      .y_is_bf16 = y.element_type() == ElementType::kBf16,
      .y_takes_vectors = reinterpret_cast<std::uintptr_t>(y.address()) % 16 == 0 && y.stride(0) % 8 == 0};
  list.num_tiles += static_cast<std::int32_t>(pieces_of(weight.rows, list.tile_outputs));
}

void multiply_few(WeightFormat weights, bool fp8_tokens, const ProductList& list, CudaContext& context) {
  BALEEN_CHECK_EQ(list.tile_outputs, kFewTileOutputs);
  const auto launch = [&](auto one, auto two) {
    (list.num_tokens <= kTileTokens ? one : two)(list, context);
  };
  if (weights == WeightFormat::kBF16) {
    BALEEN_CHECK(!fp8_tokens);
    launch(launch_few<WeightFormat::kBF16, false, 1>, launch_few<WeightFormat::kBF16, false, 2>);
  } else if (weights == WeightFormat::kFp8x32) {
    BALEEN_CHECK(!fp8_tokens);
    launch(launch_few<WeightFormat::kFp8x32, false, 1>, launch_few<WeightFormat::kFp8x32, false, 2>);
  } else if (fp8_tokens) {
    launch(launch_few<WeightFormat::kFp8, true, 1>, launch_few<WeightFormat::kFp8, true, 2>);
  } else {
    launch(launch_few<WeightFormat::kFp8, false, 1>, launch_few<WeightFormat::kFp8, false, 2>);
  }
}

void multiply_many(WeightFormat weights, bool fp8_tokens, const ProductList& list, CudaContext& context) {
  if (weights == WeightFormat::kBF16) {
    BALEEN_CHECK(!fp8_tokens);
    launch_many<WeightFormat::kBF16, false>(list, context);
  } else if (weights == WeightFormat::kFp8x32) {
    BALEEN_CHECK(!fp8_tokens);
    launch_many<WeightFormat::kFp8x32, false>(list, context);
  } else if (fp8_tokens) {
    launch_many<WeightFormat::kFp8, true>(list, context);
  } else {
    launch_many<WeightFormat::kFp8, false>(list, context);
  }
}

}  // namespace baleen::sm80
