/// Kernels of compressor. What pointers and activations are there: cuda/cuda_context.h.
#pragma once

#include <span>

#include "cuda/cuda_context.h"
#include "ops/compressor/compressor.h"

namespace baleen::BALEEN_ARCH {

void compressor(const CompressorArgs& args, CudaContext& context);

[[nodiscard]] std::span<const CudaVariant<ops::Compressor>> compressor_variants();

}  // namespace baleen::BALEEN_ARCH
