#include "ops/hc_post/hc_post.h"

namespace baleen {

void hc_post(const HcPostArgs& args, CpuContext& context) {
  if (context.kernels == Kernels::kReference) return hc_post_ref(args);
  hc_post_cpu(args, context);
}

}  // namespace baleen
