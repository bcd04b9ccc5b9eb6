#include "ops/hc_pre/hc_mix.h"

namespace baleen {

OpCost hc_mix_cost(ConstActivations<3> streams, const HcWeights& weights) {
  OpCost cost;
  if (streams.empty()) return cost;
  const auto values = static_cast<double>(streams.size());
  const auto num_mixes = static_cast<double>(weights.fn.extent(0));
  cost.add_flops(MathFormat::kF32,
                 values * (2.0 * num_mixes + 2.0 + 2.0));  // products, squares, weighted sum
  cost.read_bytes =
      4.0 * (values + static_cast<double>(weights.fn.size()) + static_cast<double>(weights.base.size()) +
             static_cast<double>(weights.scale.size()));
  cost.write_bytes = 4.0 * static_cast<double>(streams.extent(0) * streams.extent(2));
  return cost;
}

OpCost hc_pre_cost(const HcPreArgs& args) {
  OpCost cost = hc_mix_cost(args.streams, args.weights);
  // A Sinkhorn step adds, divides and multiplies: three operations an element, two steps an iteration.
  cost.add_flops(MathFormat::kF32, 6.0 * args.sinkhorn_iterations * static_cast<double>(args.comb.size()));
  cost.write_bytes += 4.0 * static_cast<double>(args.post.size() + args.comb.size());
  return cost;
}

}  // namespace baleen
