#include "ops/lm_head/lm_head.h"

#include "ops/operation/argument_bytes.h"

namespace baleen {

void lm_head(const LmHeadArgs& args, CpuContext& context) {
  const MatmulProduct product{.weight = args.weight, .x = args.x, .y = args.logits};
  matmul({&product, 1}, context);
}

OpCost lm_head_cost(const LmHeadArgs& args) {
  OpCost cost;
  if (args.x.size() == 0) return cost;
  cost = matmul_cost(*args.weight, static_cast<double>(args.x.extent(0)), ActivationRounding::kNone);
  cost.read_bytes += bytes_of(args.x);
  cost.write_bytes += bytes_of(args.logits);
  return cost;
}

}  // namespace baleen
