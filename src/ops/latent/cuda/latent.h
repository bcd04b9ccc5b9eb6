/// Kernels of latent. What pointers and activations are there: cuda/cuda_context.h.
#pragma once

#include <span>

#include "cuda/cuda_context.h"
#include "ops/latent/latent.h"

namespace baleen::BALEEN_ARCH {

void latent(const LatentArgs& args, CudaContext& context);

[[nodiscard]] std::span<const CudaVariant<ops::Latent>> latent_variants();

}  // namespace baleen::BALEEN_ARCH
