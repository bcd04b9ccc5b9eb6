#include "ops/experts/experts.h"

#include "base/check.h"

namespace baleen {

void experts(const ExpertsArgs& args, CpuContext& context) {
  BALEEN_CHECK(args.x.data() != args.out.data() || args.x.empty());
  BALEEN_CHECK_EQ(args.x.extent(0), args.ids.extent(0));
  if (args.x.extent(0) == 0) return;
  if (context.kernels == Kernels::kReference) return experts_ref(args);
  experts_cpu(args, context);
}

}  // namespace baleen
