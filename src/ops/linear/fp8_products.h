/// Products of one FP8 input with FP8 weights, as the kernels take them.
///
/// The canonical order of a sum over K, to which both kernels keep, so that an output is the same to the bit whichever
/// computes it and whatever else it computes: the tensor core sums a slice of 128 inputs from nothing; s = s_x * s_w;
/// sum = fma(slice, s, sum) slice after slice of a segment, from zero; segments are added in order. How K is cut
/// into segments follows from the shape of the weight alone.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "cuda/cuda_context.h"
#include "ops/linear/linear.h"
#include "tensor/fp8_rows.h"

namespace baleen {

inline constexpr int kMaxProducts = 8;
inline constexpr int kSliceInputs = 128;  ///< of one scale, and bytes of a row of a tile
inline constexpr int kTileRows = 128;     ///< rows of the weight in a tile: they share one scale per slice
inline constexpr int kMaxSegments = 8;    ///< blocks of a portable cluster

/// A power of two: as many blocks share the inputs of one tile when there are few tokens that the tiles of a layer's
/// weights occupy every multiprocessor. Never more than there are slices.
[[nodiscard]] constexpr int num_segments(std::int64_t num_outputs, std::int64_t num_inputs) {
  int segments = num_outputs >= 8192 ? 1 : num_outputs > 4096 ? 2 : num_outputs >= 2048 ? 4 : kMaxSegments;
  while (segments > num_inputs / kSliceInputs) segments /= 2;
  return segments;
}
/// First slice of a segment; of segment `segments`: the end.
[[nodiscard]] constexpr int segment_begin(int segment, int segments, int num_slices) {
  return segment * num_slices / segments;
}

/// One weight and where its product goes.
struct Fp8Product {
  const float* weight_scales = nullptr;  ///< [ceil(N / 128), K / 128]
  std::byte* y = nullptr;                ///< [T, N], 16-byte aligned
  std::int64_t y_stride = 0;             ///< in elements, a multiple of 8
  std::int32_t num_outputs = 0;          ///< N, a multiple of 8
  std::int32_t first_tile = 0;           ///< of this product among the tiles of all
  bool y_f32 = false;                    ///< else BF16
};

/// Parameter of the kernels. All products have the same K and are cut into as many segments.
struct Fp8Products {
  CUtensorMap weights[kMaxProducts];  ///< in boxes of the kernel's rows x kSliceInputs
  CUtensorMap tokens;                 ///< the codes of x, in boxes of the kernel's tokens x kSliceInputs
  Fp8Product products[kMaxProducts];
  const float* token_scales;  ///< [K / 128, scale_stride]
  std::int64_t scale_stride;
  std::int32_t num_products;
  std::int32_t num_tiles;  ///< of all products
  std::int32_t num_tokens;
  std::int32_t num_slices;
  std::int32_t num_segments;
};

/// Which product a tile belongs to.
constexpr int product_of_tile(const Fp8Products& all, int tile) {
  int product = all.num_products - 1;
  while (all.products[product].first_tile > tile) --product;
  return product;
}

/// The few: every weight is read once for up to 64 tokens, its inputs spread over the blocks of a cluster. The many: tiles
/// of 128 x 128, each the work of one block. Either takes any number of tokens. x: [T, K].
void fp8_products_few(std::span<const LinearOutput> outputs, const Fp8Rows& x, std::int64_t num_tokens,
                      CudaContext& context);
void fp8_products_many(std::span<const LinearOutput> outputs, const Fp8Rows& x, std::int64_t num_tokens,
                       CudaContext& context);

/// The parameter of a launch for `outputs`, which agree in K and in the number of segments. Boxes: what one copy loads.
[[nodiscard]] Fp8Products describe_products(std::span<const LinearOutput> outputs, const Fp8Rows& x,
                                            std::int64_t num_tokens, int box_rows, int box_tokens);

}  // namespace baleen
