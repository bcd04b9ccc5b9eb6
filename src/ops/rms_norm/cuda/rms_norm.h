/// Kernels of rms_norm. What pointers and activations are there: cuda/cuda_context.h.
#pragma once

#include <span>

#include "cuda/cuda_context.h"
#include "ops/rms_norm/rms_norm.h"

namespace baleen::BALEEN_ARCH {

/// Norm and rotation of every head in one pass: as rms_norm(norm) followed by rope(rotation), whose x is
/// norm.y, whose heads are norm's rows. The kernel behind it begins when all that was queued before it is
/// done; without rows there is no kernel.
void rms_norm_rope(const RmsNormArgs& norm, const RopeArgs& rotation, CudaContext& context);
void rms_norm(const RmsNormArgs& args, CudaContext& context);

[[nodiscard]] std::span<const CudaVariant<ops::RmsNorm>> rms_norm_variants();
[[nodiscard]] std::span<const CudaVariant<ops::RmsNorm, ops::Rope>> rms_norm_rope_variants();

}  // namespace baleen::BALEEN_ARCH
