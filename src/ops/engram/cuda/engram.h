/// Kernels of engram. What pointers and activations are there: cuda/cuda_context.h.
#pragma once

#include <span>

#include "cuda/cuda_context.h"
#include "ops/engram/engram.h"
#include "ops/engram/engram_lookup.h"

namespace baleen::BALEEN_ARCH {

void engram(const EngramArgs& args, CudaContext& context);
/// The table may lie in memory of the host that the device reads; its rows begin on 16 bytes.
void engram_lookup(const EngramLookupArgs& args, CudaContext& context);

[[nodiscard]] std::span<const CudaVariant<ops::Engram>> engram_variants();
[[nodiscard]] std::span<const CudaVariant<ops::EngramLookup>> engram_lookup_variants();

}  // namespace baleen::BALEEN_ARCH
