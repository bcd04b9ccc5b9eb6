/// Hopper (sm_90a) kernels of linear. What pointers and activations are there: cuda/cuda_context.h.
#pragma once

#include <cstdint>

#include "cuda/cuda_context.h"
#include "ops/linear/linear.h"

namespace baleen::sm90 {

/// FP8 and BF16 weights, 16-byte aligned like x and y; N of an FP8 weight is a multiple of 8.
void linear(const LinearArgs& args, CudaContext& context);
/// FP8 rows of x, for callers that have none.
[[nodiscard]] std::int64_t linear_scratch_bytes(std::int64_t max_rows, std::int64_t max_inputs);

}  // namespace baleen::sm90
