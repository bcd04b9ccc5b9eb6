/// Kernels of lm_head. What pointers and activations are there: cuda/cuda_context.h.
#pragma once

#include <span>

#include "cuda/cuda_context.h"
#include "ops/lm_head/lm_head.h"

namespace baleen::BALEEN_ARCH {

void lm_head(const LmHeadArgs& args, CudaContext& context);

[[nodiscard]] std::span<const CudaVariant<ops::LmHead>> lm_head_variants();

}  // namespace baleen::BALEEN_ARCH
