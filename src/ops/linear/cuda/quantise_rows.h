/// Rows of BF16 as FP8 products want them, where the operation that made them wrote no such form.
#pragma once

#include "cuda/cuda_context.h"
#include "numeric/bf16.h"
#include "tensor/activations.h"
#include "tensor/fp8_rows.h"

namespace baleen::BALEEN_ARCH {

/// x: [T, K] BF16, K a multiple of 128, rows 16-byte aligned. Fills `rows`, which has room for T x K, in
/// groups of 128.
void quantise_rows(ConstActivations<2> x, const Fp8Rows& rows, CudaContext& context);

/// `rounded` [T, K] BF16, dense: what x, as above, is in e4m3 with a power-of-two scale per 32 values,
/// exactly.
void round_rows(ConstActivations<2> x, Bf16Bits* rounded, CudaContext& context);

}  // namespace baleen::BALEEN_ARCH
