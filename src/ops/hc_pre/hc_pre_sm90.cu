#include "ops/hc_pre/hc_pre.h"
#include "ops/hc_pre/hc_site_launch.cuh"

namespace baleen {

void hc_pre_norm_sm90(const HcPreArgs& pre, const RmsNormArgs& norm, CudaContext& context) {
  launch_hc_site<false>(hc_site_args(pre, norm), context);
}

std::int64_t hc_pre_sm90_scratch_bytes(std::int64_t num_rows, std::int64_t width) {
  return Arena::bytes_for<float>(num_rows * hc_ranks(static_cast<int>(width)) * kHcSums);
}

}  // namespace baleen
