/// Products of one FP8 input with FP8 weights, which every architecture has kernels of its own for.
///
/// The canonical order of a sum over K, to which both kernels keep, so that an output is the same to the bit
/// whichever computes it and whatever else it computes: the tensor core sums a slice of 128 inputs from
/// nothing; s = s_x * s_w; sum = fma(slice, s, sum) slice after slice, from zero.
#pragma once

#include <cstdint>
#include <span>

#include "cuda/cuda_context.h"
#include "numeric/block_scale.h"
#include "ops/linear/linear.h"
#include "tensor/fp8_rows.h"

namespace baleen::BALEEN_ARCH {

inline constexpr int kMaxProducts = 8;
inline constexpr int kSliceInputs =
    kActivationGroup;  ///< inputs with one scale, and bytes of a row of a tile
static_assert(kWeightBlock == kSliceInputs);

/// The few: narrow tiles of weights, each read once for a few tokens. The many: large tiles. Either takes any
/// number of tokens. x: [T, K].
void fp8_products_few(std::span<const LinearOutput> outputs, const Fp8Rows& x, std::int64_t num_tokens,
                      CudaContext& context);
void fp8_products_many(std::span<const LinearOutput> outputs, const Fp8Rows& x, std::int64_t num_tokens,
                       CudaContext& context);

}  // namespace baleen::BALEEN_ARCH
