/// Products of one FP8 input with FP8 weights (ops/linear/cuda/fp8_products.h), as Hopper's kernels take
/// them.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "cuda/cuda_context.h"
#include "ops/linear/cuda/fp8_products.h"
#include "tensor/fp8_rows.h"

namespace baleen::sm90 {

/// One weight and where its product goes.
struct Fp8Product {
  const float* weight_scales = nullptr;  ///< [ceil(N / 128), K / 128]
  std::byte* y = nullptr;                ///< [T, N], 16-byte aligned
  std::int64_t y_stride = 0;             ///< elements from row to row, a multiple of 8
  std::int32_t num_outputs = 0;          ///< N, a multiple of 8
  std::int32_t first_tile = 0;           ///< first tile of this product among the tiles of all
  bool y_f32 = false;                    ///< else BF16
};

/// Parameter of the kernels. All products have the same K. Maps see matrices of 128 inputs each: (byte, row,
/// slice).
struct Fp8Products {
  CUtensorMap weights[kMaxProducts];
  CUtensorMap tokens;  ///< the codes of x
  Fp8Product products[kMaxProducts];
  const float* token_scales;  ///< [K / 128, scale_stride]
  std::int64_t scale_stride;
  std::int32_t num_products;
  std::int32_t num_tiles;  ///< tiles of weights that all products have
  std::int32_t num_tokens;
  std::int32_t num_slices;
};

/// Which product a tile belongs to.
constexpr int product_of_tile(const Fp8Products& all, int tile) {
  int product = all.num_products - 1;
  while (all.products[product].first_tile > tile) --product;
  return product;
}

/// What one copy loads.
struct Fp8Boxes {
  int rows;  ///< rows of a weight: a tile's
  int row_slices;
  int tokens;
  int token_slices;
};
/// The parameter of a launch for `outputs`, which agree in K.
[[nodiscard]] Fp8Products describe_products(std::span<const LinearOutput> outputs, const Fp8Rows& x,
                                            std::int64_t num_tokens, const Fp8Boxes& boxes);

}  // namespace baleen::sm90
