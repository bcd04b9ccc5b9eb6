/// Kernels of route. What pointers and activations are there: cuda/cuda_context.h.
#pragma once

#include <span>

#include "cuda/cuda_context.h"
#include "ops/route/route.h"

namespace baleen::BALEEN_ARCH {

/// The kernel behind it begins when all that was queued before it is done.
void route(const RouteArgs& args, CudaContext& context);

[[nodiscard]] std::span<const CudaVariant<ops::Route>> route_variants();

}  // namespace baleen::BALEEN_ARCH
