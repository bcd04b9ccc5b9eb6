/// Kernels of linear. What pointers and activations are there: cuda/cuda_context.h.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "cuda/cuda_context.h"
#include "ops/linear/linear.h"

namespace baleen::BALEEN_ARCH {

// FP8 and BF16 weights, 16-byte aligned like x and y; N of an FP8 weight is a multiple of 8. The bits are the
// same either way.

/// FP8 products in narrow tiles: one pass over the weights serves a few tokens.
void linear_few_tokens(const LinearArgs& args, CudaContext& context);
/// FP8 products in large tiles.
void linear_many_tokens(const LinearArgs& args, CudaContext& context);
/// By the variant that is predicted to take the least time.
void linear(const LinearArgs& args, CudaContext& context);

/// FP8 rows of x, for callers that have none.
[[nodiscard]] std::int64_t linear_scratch_bytes(std::int64_t max_rows, std::int64_t max_inputs);

/// What all variants take for steps of a shape, and why they do not take a call.
[[nodiscard]] std::int64_t linear_scratch_bytes(const StepShape& shape, const DeviceTraits& traits);
[[nodiscard]] std::optional<Reason> why_not_linear(const LinearArgs& args, const DeviceTraits& traits);

[[nodiscard]] std::span<const CudaVariant<ops::Linear>> linear_variants();

}  // namespace baleen::BALEEN_ARCH
