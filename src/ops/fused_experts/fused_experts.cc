#include "ops/fused_experts/fused_experts.h"

namespace baleen {

OpCost FusedExperts::cost(const DispatchArgs& /*dispatch*/, const ExpertsArgs& routed,
                          const ExpertsArgs& shared, const CombineArgs& combine) {
  OpCost cost = expected_experts_cost(routed);
  cost += expected_experts_cost(shared);
  cost += ops::Combine::cost(combine);
  return cost;
}

}  // namespace baleen
