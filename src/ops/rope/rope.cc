#include "ops/rope/rope.h"

namespace baleen {

void rope(const RopeArgs& args, CpuContext& context) {
  if (context.kernels == Kernels::kReference) return rope_ref(args);
  rope_cpu(args, context);
}

}  // namespace baleen
