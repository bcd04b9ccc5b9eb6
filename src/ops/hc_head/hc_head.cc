#include "ops/hc_head/hc_head.h"

namespace baleen {

void hc_head(const HcHeadArgs& args, CpuContext& context) {
  if (context.kernels == Kernels::kReference) return hc_head_ref(args);
  hc_head_cpu(args, context);
}

}  // namespace baleen
