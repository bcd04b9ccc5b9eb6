#include "ops/lm_head/lm_head.h"

namespace baleen {

void lm_head(const LmHeadArgs& args, CpuContext& context) {
  const MatmulProduct product{.weight = args.weight, .x = args.x, .y = args.logits};
  matmul({&product, 1}, context);
}

OpCost lm_head_cost(const LmHeadArgs& args) { return matmul_cost(*args.weight, args.x.extent(0)); }

}  // namespace baleen
