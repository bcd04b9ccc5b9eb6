/// Kernels of hc_head. What pointers and activations are there: cuda/cuda_context.h.
#pragma once

#include <span>

#include "cuda/cuda_context.h"
#include "ops/hc_head/hc_head.h"

namespace baleen::BALEEN_ARCH {

void hc_head(const HcHeadArgs& args, CudaContext& context);

[[nodiscard]] std::span<const CudaVariant<ops::HcHead>> hc_head_variants();

}  // namespace baleen::BALEEN_ARCH
