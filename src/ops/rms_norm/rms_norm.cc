#include "ops/rms_norm/rms_norm.h"

namespace baleen {

void rms_norm(const RmsNormArgs& args, CpuContext& context) {
  if (context.kernels == Kernels::kReference) return rms_norm_ref(args);
  rms_norm_cpu(args, context);
}

}  // namespace baleen
