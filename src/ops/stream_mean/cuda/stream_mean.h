/// Kernels of stream_mean. What pointers and activations are there: cuda/cuda_context.h.
#pragma once

#include <span>

#include "cuda/cuda_context.h"
#include "ops/stream_mean/stream_mean.h"

namespace baleen::BALEEN_ARCH {

void stream_mean(const StreamMeanArgs& args, CudaContext& context);

[[nodiscard]] std::span<const CudaVariant<ops::StreamMean>> stream_mean_variants();

}  // namespace baleen::BALEEN_ARCH
