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
/// The quicker of the two.
void linear(const LinearArgs& args, CudaContext& context);

/// Whether many_tokens is quicker: from 65 tokens on, but from 193 only where its tiles are too few for the
/// device's multiprocessors. Measured by `sm90_linear_bench`, rows "few" and "many" (docs/ops/linear.md).
[[nodiscard]] bool few_tokens_are_slower(const LinearArgs& args, int num_sms);
/// FP8 rows of x, for callers that have none.
[[nodiscard]] std::int64_t linear_scratch_bytes(std::int64_t max_rows, std::int64_t max_inputs);

[[nodiscard]] std::span<const CudaVariant<ops::Linear>> linear_variants();

}  // namespace baleen::sm90
