/// Kernels of embed. What pointers and activations are there: cuda/cuda_context.h.
#pragma once

#include <span>

#include "cuda/cuda_context.h"
#include "ops/embed/embed.h"

namespace baleen::BALEEN_ARCH {

void embed(const EmbedArgs& args, CudaContext& context);

[[nodiscard]] std::span<const CudaVariant<ops::Embed>> embed_variants();

}  // namespace baleen::BALEEN_ARCH
