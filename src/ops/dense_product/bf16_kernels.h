/// Products of packed BF16 operands, on one thread: c (+)= alpha a b, sums in float32. Each element of c is
/// summed over the whole inner dimension in one order, wherever it lies.
#pragma once

#include "ops/dense_product/bf16_operands.h"

namespace baleen {

/// AVX-512 with BF16: dot products of pairs.
void multiply_by_vectors(const DenseProduct<float>& product, const Bf16Operands& operands);

/// AMX: tiles of 16 x 32 by 32 x 16. The process must have been permitted its registers.
void multiply_by_tiles(const DenseProduct<float>& product, const Bf16Operands& operands);

}  // namespace baleen
