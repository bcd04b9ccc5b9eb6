/// Products of one FP8 input with FP8 weights, as the kernels take them.
///
/// The canonical order of a sum over K, to which both kernels keep, so that an output is the same to the bit
/// whichever computes it and whatever else it computes: the tensor core sums a slice of 128 inputs from
/// nothing; s = s_x * s_w; sum = fma(slice, s, sum) slice after slice, from zero.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "cuda/cuda_context.h"
#include "numeric/block_scale.h"
#include "ops/linear/linear.h"
#include "tensor/fp8_rows.h"

namespace baleen::sm90 {

inline constexpr int kMaxProducts = 8;
inline constexpr int kSliceInputs =
    kActivationGroup;  ///< inputs with one scale, and bytes of a row of a tile
static_assert(kWeightBlock == kSliceInputs);

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

/// The few: narrow tiles of weights, each read once for up to 64 tokens. The many: tiles of 128 weight rows x
/// 256 tokens. Either takes any number of tokens. x: [T, K].
void fp8_products_few(std::span<const LinearOutput> outputs, const Fp8Rows& x, std::int64_t num_tokens,
                      CudaContext& context);
void fp8_products_many(std::span<const LinearOutput> outputs, const Fp8Rows& x, std::int64_t num_tokens,
                       CudaContext& context);

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
