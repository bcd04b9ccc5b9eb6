/// Kernels of hc_post. What pointers and activations are there: cuda/cuda_context.h.
#pragma once

#include <span>

#include "cuda/cuda_context.h"
#include "ops/hc_post/hc_post.h"

namespace baleen::BALEEN_ARCH {

void hc_post(const HcPostArgs& args, CudaContext& context);
/// From one sublayer to the next in one pass over the streams: as hc_post(post), then hc_pre(pre) on the
/// same streams, then rms_norm(norm), whose x and y are pre.u. pre.post may be post.post, pre.comb post.comb.
void hc_post_pre_norm(const HcPostArgs& post, const HcPreArgs& pre, const RmsNormArgs& norm,
                      CudaContext& context);

[[nodiscard]] std::span<const CudaVariant<ops::HcPost>> hc_post_variants();
[[nodiscard]] std::span<const CudaVariant<ops::HcPost, ops::HcPre, ops::RmsNorm>> hc_post_pre_norm_variants();

}  // namespace baleen::BALEEN_ARCH
