/// Rows of BF16 as FP8 products want them, where the operation that made them wrote no such form.
#pragma once

#include "cuda/cuda_context.h"
#include "tensor/activations.h"
#include "tensor/fp8_rows.h"

namespace baleen::BALEEN_ARCH {

/// x: [T, K] BF16, K a multiple of 128, rows 16-byte aligned. Fills `rows`, which has room for T x K.
void quantise_rows(ConstActivations<2> x, const Fp8Rows& rows, CudaContext& context);

}  // namespace baleen::BALEEN_ARCH
