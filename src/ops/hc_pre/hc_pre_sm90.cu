#include "ops/hc_pre/hc_pre.h"
#include "ops/hc_pre/hc_site_launch.cuh"

namespace baleen {

void hc_pre_norm_sm90(const HcPreArgs& pre, const RmsNormArgs& norm, CudaContext& context) {
  launch_hc_site<false>(hc_site_args(pre, norm), context);
}

}  // namespace baleen
