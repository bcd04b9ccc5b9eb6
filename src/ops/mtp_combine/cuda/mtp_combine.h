/// Kernels of mtp_combine. What pointers and activations are there: cuda/cuda_context.h.
#pragma once

#include <span>

#include "cuda/cuda_context.h"
#include "ops/mtp_combine/mtp_combine.h"

namespace baleen::BALEEN_ARCH {

void mtp_combine(const MtpCombineArgs& args, CudaContext& context);

[[nodiscard]] std::span<const CudaVariant<ops::MtpCombine>> mtp_combine_variants();

}  // namespace baleen::BALEEN_ARCH
