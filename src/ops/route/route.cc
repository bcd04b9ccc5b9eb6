#include "ops/route/route.h"

namespace baleen {

void route(const RouteArgs& args, CpuContext& context) {
  if (context.kernels == Kernels::kReference) return route_ref(args);
  route_cpu(args, context);
}

}  // namespace baleen
