/// Hopper (sm_90a) kernels of rope_angles. What pointers and activations are there: cuda/cuda_context.h.
#pragma once

#include "cuda/cuda_context.h"
#include "ops/rope/rope_angles.h"

namespace baleen::sm90 {

void rope_angles(const RopeAnglesArgs& args, CudaContext& context);

}  // namespace baleen::sm90
