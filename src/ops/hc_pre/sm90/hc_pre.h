/// Hopper (sm_90a) kernels of hc_pre. What pointers and activations are there: cuda/cuda_context.h.
#pragma once

#include <cstdint>

#include "cuda/cuda_context.h"
#include "ops/hc_pre/hc_pre.h"

namespace baleen::sm90 {

/// As hc_pre(pre) followed by rms_norm(norm), whose x and y are pre.u.
void hc_pre_norm(const HcPreArgs& pre, const RmsNormArgs& norm, CudaContext& context);
/// Of hc_pre_norm and hc_post_pre_norm.
[[nodiscard]] std::int64_t hc_pre_scratch_bytes(std::int64_t num_rows, std::int64_t width);

}  // namespace baleen::sm90
