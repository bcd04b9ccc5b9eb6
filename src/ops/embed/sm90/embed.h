/// Hopper (sm_90a) kernels of embed. What pointers and activations are there: cuda/cuda_context.h.
#pragma once

#include <span>

#include "cuda/cuda_context.h"
#include "ops/embed/embed.h"

namespace baleen::sm90 {

void embed(const EmbedArgs& args, CudaContext& context);

[[nodiscard]] std::span<const CudaVariant<ops::Embed>> embed_variants();

}  // namespace baleen::sm90
