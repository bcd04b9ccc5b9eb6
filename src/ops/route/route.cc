#include "ops/route/route.h"

namespace baleen {

void route(const RouteArgs& args, CpuContext& context) {
  if (context.kernels == Kernels::kReference) {
    route_ref(args);
  } else {
    route_cpu(args, context);
  }
  if (args.load.empty()) return;
  for (std::int64_t row = 0; row < args.ids.extent(0); ++row) {
    for (const std::int32_t expert : args.ids.row(row)) ++args.load[static_cast<std::size_t>(expert)];
  }
}

}  // namespace baleen
