/// Kernels of hc_pre. What pointers and activations are there: cuda/cuda_context.h.
#pragma once

#include <cstdint>
#include <span>

#include "cuda/cuda_context.h"
#include "ops/hc_pre/hc_pre.h"

namespace baleen::BALEEN_ARCH {

void hc_pre(const HcPreArgs& args, CudaContext& context);
/// As hc_pre(pre) followed by rms_norm(norm), whose x and y are pre.u.
void hc_pre_norm(const HcPreArgs& pre, const RmsNormArgs& norm, CudaContext& context);
/// Of these, and of hc_post_pre_norm.
[[nodiscard]] std::int64_t hc_pre_scratch_bytes(std::int64_t num_rows, std::int64_t width);

[[nodiscard]] std::span<const CudaVariant<ops::HcPre>> hc_pre_variants();
[[nodiscard]] std::span<const CudaVariant<ops::HcPre, ops::RmsNorm>> hc_pre_norm_variants();

}  // namespace baleen::BALEEN_ARCH
