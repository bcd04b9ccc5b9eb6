/// Products of BF16 activations with BF16 weights on tensor cores, several of one input in one
/// launch.
///
/// y = x W^T in float32 sums. The order of summation depends on a weight's own shape [N, K] alone: never on
/// the number of rows, on their place, or on the other products of the launch.
#pragma once

#include <span>

#include "cuda/cuda_context.h"
#include "ops/matmul/weight_matrix.h"
#include "tensor/activations.h"

namespace baleen::BALEEN_ARCH {

struct MatmulBf16 {
  const WeightMatrix* weight = nullptr;  ///< [N, K] kBF16, 16-byte aligned; any N
  ConstActivations<2> x;                 ///< [T, K] BF16; 16-byte aligned, rows a multiple of 8 values apart
  Activations<2> y;                      ///< [T, N]; float32, or rounded to BF16, by its element type
};

/// Products of one launch.
constexpr std::int64_t kMaxMatmulBf16Products = 8;

/// All products have the same x. At most `kMaxMatmulBf16Products`; takes no scratch.
void matmul_bf16(std::span<const MatmulBf16> products, CudaContext& context);
/// y += x W^T, y in float32: each output's sum is one segment, whatever the weight's shape, and is added
/// last. Weights pass once for every 64 rows.
void add_matmul_bf16(const MatmulBf16& product, CudaContext& context);

}  // namespace baleen::BALEEN_ARCH
