/// Kernels of grouped_linear. What pointers and activations are there: cuda/cuda_context.h.
#pragma once

#include <span>

#include "cuda/cuda_context.h"
#include "ops/grouped_linear/grouped_linear.h"

namespace baleen::BALEEN_ARCH {

void grouped_linear(const GroupedLinearArgs& args, CudaContext& context);

[[nodiscard]] std::span<const CudaVariant<ops::GroupedLinear>> grouped_linear_variants();

}  // namespace baleen::BALEEN_ARCH
