/// Inside of the BF16 products: what a launch works on, as the kernels see it.
///
/// Weights are the tensor cores' M axis, tokens their N axis, in every kernel: an output's arithmetic is the
/// same whatever the number of tokens beside it. The order of summation: K is cut into slices of 128 and
/// these into segments; a segment is one chain of tensor core additions in ascending K, segments are added in
/// order in float32.
#pragma once

#include <cuda.h>

#include <cstdint>
#include <span>

#include "cuda/cuda_context.h"
#include "ops/matmul/cuda/bf16_work.h"
#include "ops/matmul/cuda/matmul_bf16.h"
#include "ops/matmul/sm90/bf16_time.h"

namespace baleen::sm90 {

constexpr int kSliceInputs = bf16_time::kSliceInputs;
/// y leaves a warpgroup in pieces of 64 outputs of as many tokens as these bytes hold.
constexpr int kStagingBytes = 8192;
using bf16_time::kMaxSegments;

/// A launch (bf16_work.h) as a kernel's parameter. Matrices that are loaded are seen as columns of 128 (or
/// 64) bytes, the span of the swizzle: coordinates (0, row, column). A box of several columns lies in shared
/// memory column after column.
struct Bf16Products {
  struct Product {
    CUtensorMap weight;
    CUtensorMap y_map;   ///< boxes of 128 bytes of a row
    const void* scales;  ///< FP8: of the weight, as they are held
    std::byte* y;
    std::int64_t y_stride;  ///< elements from row to row
    std::int32_t num_outputs;
    std::int32_t first_tile;  ///< tiles of all products are numbered through
    bool y_is_bf16;
    bool y_has_map;  ///< it lies as TMA wants it
  };

  CUtensorMap x;
  Product products[kMaxMatmulBf16Products];
  std::int32_t num_products;
  std::int32_t num_tiles;
  std::int32_t tile_outputs;
  std::int32_t num_rows;
  std::int32_t num_slices;
  std::int32_t segment_slices;
  std::int32_t num_groups;
  std::int32_t group_outputs;
  std::int32_t group_columns;  ///< columns of x from group to group
};

/// How a kernel cuts them.
struct Bf16Boxes {
  int tile_outputs;           ///< rows of a tile, and of a box of weights
  int weight_bytes;           ///< bytes of K of a column of weights: 128 or 64, also the span of the swizzle
  int weight_columns;         ///< columns that a box of weights has
  int tokens;                 ///< rows of a box of x
  int token_columns;          ///< columns that a box of tokens has, 128 bytes each
  bool stores_boxes = false;  ///< y too, where it can
};
/// The launch as its predicted time depends on it.
[[nodiscard]] bf16_time::Shape shape_of(const Bf16Work& work);
[[nodiscard]] Bf16Products make_products(const Bf16Work& work, const Bf16Boxes& boxes);

/// Few rows, one segment, BF16 weights: all pass once, as fast as memory gives them.
void bf16_stream(const Bf16Work& work, CudaContext& context);
/// The same, added to the float32 values that y holds.
void bf16_stream_adding(const Bf16Work& work, CudaContext& context);
/// The same with FP8 weights, of either block.
void bf16_stream_fp8(const Bf16Work& work, CudaContext& context);
/// Few rows, kMaxSegments: the same with the segments side by side.
void bf16_split(const Bf16Work& work, CudaContext& context);
/// Many rows, any segments: as fast as the tensor cores multiply.
void bf16_tile(const Bf16Work& work, CudaContext& context);

}  // namespace baleen::sm90
