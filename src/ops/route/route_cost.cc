#include "ops/operation/argument_bytes.h"
#include "ops/route/route.h"

namespace baleen {

OpCost route_cost(const RouteArgs& args) {
  const auto logits = static_cast<double>(args.logits.size());
  const auto chosen = static_cast<double>(args.ids.size());
  constexpr double kScoreOps = 4;   // exponential, sum, logarithm, root
  constexpr double kChoiceOps = 2;  // bias, comparison
  constexpr double kWeightOps = 4;  // look-up, sum, division, scale
  OpCost cost;
  cost.scalar_ops = kScoreOps * logits + kWeightOps * chosen;
  cost.read_bytes = bytes_of(args.logits);
  if (args.hash_table.empty()) {
    cost.scalar_ops += kChoiceOps * logits;
    cost.read_weights(4.0 * static_cast<double>(args.bias.size()));
  } else {
    cost.read_bytes += static_cast<double>(sizeof(std::int32_t)) * chosen +
                       static_cast<double>(sizeof(TokenId) * args.tokens.size());
  }
  cost.write_bytes = static_cast<double>(sizeof(std::int32_t)) * chosen + bytes_of(args.weights);
  return cost;
}

OpCost route_backward_cost(const RouteArgs& args) {
  const auto chosen = static_cast<double>(args.ids.size());
  // Of a chosen expert: its score again (4) and the score's slope (3); the weighted sum over the chosen (2),
  // the difference to it, and two scales. The choice itself has none.
  constexpr double kChosenOps = 12;
  OpCost cost;
  cost.scalar_ops = kChosenOps * chosen;
  cost.read_bytes = (4.0 + static_cast<double>(sizeof(std::int32_t))) * chosen + bytes_of(args.weights);
  cost.write_bytes = bytes_of(args.logits);
  return cost;
}

}  // namespace baleen
