#include "ops/route/route.h"

namespace baleen {

OpCost route_cost(const RouteArgs& args) {
  const auto logits = static_cast<double>(args.logits.size());
  const auto chosen = static_cast<double>(args.ids.size());
  OpCost cost;
  // Exponential, logarithm, root and bias as one operation each; a sum, a division and a scale a weight.
  cost.add_flops(MathFormat::kF32, 4.0 * logits + 3.0 * chosen);
  cost.read_bytes = 4.0 * logits;
  if (args.hash_table.empty()) {
    cost.read_bytes += 4.0 * static_cast<double>(args.bias.size());
  } else {
    cost.read_bytes += 4.0 * (chosen + static_cast<double>(args.tokens.size()));
  }
  cost.write_bytes = 8.0 * chosen;
  return cost;
}

}  // namespace baleen
