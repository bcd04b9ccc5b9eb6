#include "ops/operation/argument_bytes.h"
#include "ops/rope/rope.h"

namespace baleen {

OpCost rope_cost(const RopeArgs& args) {
  // Every head of a row is rotated by the row's [rotary_dim / 2] angles, which an ideal kernel makes from the
  // position.
  const auto pairs = static_cast<double>(args.cosine.size() * args.x.extent(1));
  OpCost cost;
  cost.scalar_ops = kRotatePairOps * pairs;
  cost.read_bytes = cost.write_bytes = 2.0 * pairs * static_cast<double>(size_of(args.x.element_type()));
  return cost;
}

/// The rotation by the opposite angle.
OpCost rope_backward_cost(const RopeArgs& args) { return rope_cost(args); }

}  // namespace baleen
