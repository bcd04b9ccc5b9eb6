#include "ops/hc_pre/hc_pre.h"

namespace baleen {

void hc_pre(const HcPreArgs& args, CpuContext& context) {
  if (context.kernels == Kernels::kReference) return hc_pre_ref(args);
  hc_pre_cpu(args, context);
}

}  // namespace baleen
