/// Kernels of sample. What pointers and activations are there: cuda/cuda_context.h.
#pragma once

#include <span>

#include "cuda/cuda_context.h"
#include "ops/sample/sample.h"

namespace baleen::BALEEN_ARCH {

void sample(const SampleArgs& args, CudaContext& context);

[[nodiscard]] std::span<const CudaVariant<ops::Sample>> sample_variants();

}  // namespace baleen::BALEEN_ARCH
