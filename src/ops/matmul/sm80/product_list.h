/// Several weights that multiply one input, in one launch.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/cuda_context.h"
#include "ops/matmul/weight_matrix.h"
#include "ops/operation/kernel_time.h"
#include "tensor/activations.h"
#include "tensor/fp8_rows.h"

namespace baleen::sm80 {

inline constexpr int kMaxListedProducts = 8;

/// Parameter of the kernels. Weights of a list have one format and one K.
struct ProductList {
  struct Product {
    const std::byte* weight = nullptr;
    const float* block_scales = nullptr;  ///< FP8: [ceil(N / 128), K / 128]
    /// FP8 in blocks of 32: [ceil(N / 32), K / 32] e8m0
    const std::uint8_t* group_scales = nullptr;
    std::byte* y = nullptr;        ///< [T, N]
    std::int64_t y_stride = 0;     ///< elements from row to row
    std::int32_t num_outputs = 0;  ///< N
    std::int32_t first_tile = 0;   ///< tiles of all products are numbered through
    bool y_is_bf16 = false;        ///< else float32
    bool y_takes_vectors = false;  ///< eight outputs begin on 16 bytes
  };

  Product products[kMaxListedProducts];
  const std::byte* tokens = nullptr;    ///< e4m3 codes or BF16: of the first group where there are several
  std::int64_t token_bytes = 0;         ///< from token to token
  std::int64_t group_bytes = 0;         ///< from group to group of a token
  const float* token_scales = nullptr;  ///< codes have some: [K / 128, scale_stride]
  std::int64_t scale_stride = 0;
  std::int32_t num_products = 0;
  std::int32_t num_tiles = 0;
  std::int32_t tile_outputs = 0;   ///< weight rows of a tile
  std::int32_t group_outputs = 0;  ///< outputs that a group has; a tile lies in one
  std::int32_t num_tokens = 0;
  bool adds = false;            ///< to what y holds, which is float32
  std::int32_t num_slices = 0;  ///< 128 inputs each
};

/// Adds a product. All have `list.num_slices` and `list.tile_outputs`.
void add_product(ProductList& list, const WeightMatrix& weight, const Activations<2>& y);

// The kernels, for FP8 weights with tokens in FP8 and BF16, and FP8 ones in blocks of 32 and BF16 weights
// with BF16 tokens. The bits are the same.

/// Weight rows of a tile, and tokens that a pass over the weights serves.
inline constexpr int kFewTileOutputs = 16, kFewPassTokens = 16;
inline constexpr int kLargeTileOutputs = 256, kSmallTileOutputs = 64, kManyPassTokens = 64;
void multiply_few(WeightFormat weights, bool fp8_tokens, const ProductList& list, CudaContext& context);
void multiply_many(WeightFormat weights, bool fp8_tokens, const ProductList& list, CudaContext& context);

/// Predicted time, from bytes and tiles. `all_outputs`: of all
/// weights.
struct ListShape {
  std::int64_t num_tokens = 0, num_inputs = 0, all_outputs = 0;
  double weight_bytes = 0;
  WeightFormat format = WeightFormat::kFp8;
};
[[nodiscard]] double few_seconds(const ListShape& shape, int num_units, const DeviceRates& rates);
/// By large tiles.
[[nodiscard]] double large_seconds(const ListShape& shape, int num_units, const DeviceRates& rates);
/// By the tiles that take the least time, and weight rows of these.
[[nodiscard]] double many_seconds(const ListShape& shape, int num_units, const DeviceRates& rates);
[[nodiscard]] int many_tile_outputs(const ListShape& shape, int num_units, const DeviceRates& rates);

}  // namespace baleen::sm80
