#include "ops/hc_pre/cuda/hc_pre.h"
#include "ops/hc_pre/cuda/hc_site.cuh"

namespace baleen::BALEEN_ARCH {

void hc_pre(const HcPreArgs& args, CudaContext& context) {
  const HcSiteArgs site = hc_entry_args(args, args.u);
  if (site.num_rows > 0) launch_hc_site_of<false, 0, false>(site, context);
}

void hc_pre_norm(const HcPreArgs& pre, const RmsNormArgs& norm, CudaContext& context) {
  launch_hc_site<false>(hc_site_args(pre, norm), context);
}

std::int64_t hc_pre_scratch_bytes(std::int64_t num_rows, std::int64_t width) {
  return Arena::bytes_for<float>(num_rows * hc_ranks(static_cast<int>(width)) * kHcSums);
}

}  // namespace baleen::BALEEN_ARCH
