/// Hopper (sm_90a) kernels of linear. What pointers and activations are there: cuda/cuda_context.h.
#pragma once

#include <cstdint>
#include <span>

#include "cuda/cuda_context.h"
#include "ops/linear/linear.h"

namespace baleen::sm90 {

// FP8 and BF16 weights, 16-byte aligned like x and y; N of an FP8 weight is a multiple of 8. The bits are the
// same either way.

/// FP8 products in narrow tiles: one pass over the weights serves up to 64 tokens.
void linear_few_tokens(const LinearArgs& args, CudaContext& context);
/// FP8 products in tiles of 128 weight rows x 256 tokens.
void linear_many_tokens(const LinearArgs& args, CudaContext& context);
/// By the variant that is predicted to take the least time.
void linear(const LinearArgs& args, CudaContext& context);

/// FP8 rows of x, for callers that have none.
[[nodiscard]] std::int64_t linear_scratch_bytes(std::int64_t max_rows, std::int64_t max_inputs);

[[nodiscard]] std::span<const CudaVariant<ops::Linear>> linear_variants();

}  // namespace baleen::sm90
