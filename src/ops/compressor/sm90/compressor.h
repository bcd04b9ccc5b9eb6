/// Hopper (sm_90a) kernels of compressor. What pointers and activations are there: cuda/cuda_context.h.
#pragma once

#include "cuda/cuda_context.h"
#include "ops/compressor/compressor.h"

namespace baleen::sm90 {

void compressor(const CompressorArgs& args, CudaContext& context);

}  // namespace baleen::sm90
