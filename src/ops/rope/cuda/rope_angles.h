/// Kernels of rope_angles. What pointers and activations are there: cuda/cuda_context.h.
#pragma once

#include <span>

#include "cuda/cuda_context.h"
#include "ops/rope/rope_angles.h"

namespace baleen::BALEEN_ARCH {

void rope_angles(const RopeAnglesArgs& args, CudaContext& context);

[[nodiscard]] std::span<const CudaVariant<ops::RopeAngles>> rope_angles_variants();

}  // namespace baleen::BALEEN_ARCH
