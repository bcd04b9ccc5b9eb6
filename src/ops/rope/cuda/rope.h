/// Kernels of rope. What pointers and activations are there: cuda/cuda_context.h.
#pragma once

#include <span>

#include "cuda/cuda_context.h"
#include "ops/rope/rope.h"

namespace baleen::BALEEN_ARCH {

/// Where no other operation rotates on the way; cosine and sine dense. The kernel behind it begins when all
/// that was queued before it is done; without rows there is no kernel.
void rope(const RopeArgs& args, CudaContext& context);

[[nodiscard]] std::span<const CudaVariant<ops::Rope>> rope_variants();

}  // namespace baleen::BALEEN_ARCH
