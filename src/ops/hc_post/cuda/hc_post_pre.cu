#include "ops/hc_post/cuda/hc_post.h"
#include "ops/hc_pre/cuda/hc_site.cuh"

namespace baleen::BALEEN_ARCH {

void hc_post_pre_norm(const HcPostArgs& post, const HcPreArgs& pre, const RmsNormArgs& norm,
                      CudaContext& context) {
  BALEEN_CHECK(post.precision == Precision::kReleased);
  BALEEN_CHECK(post.streams.address() == pre.streams.address());
  BALEEN_CHECK(post.f.dense() && post.post.dense() && post.comb.dense());
  HcSiteArgs args = hc_site_args(pre, norm);
  args.f = post.f.bf16().data();
  args.left_post = post.post.f32().data();
  args.left_comb = post.comb.f32().data();
  launch_hc_site<true>(args, context);
}

}  // namespace baleen::BALEEN_ARCH
