#include "ops/rope/rope.h"

namespace baleen {

OpCost rope_cost(const RopeArgs& args) {
  const auto pairs = static_cast<double>(args.cosine.size());  // [T, rotary_dim / 2]
  const double turned = 2.0 * pairs * static_cast<double>(args.x.extent(1));
  OpCost cost;
  cost.add_flops(MathFormat::kF32, 3.0 * turned);  // four products and two sums a pair
  cost.read_bytes = 4.0 * (turned + 2.0 * pairs);
  cost.write_bytes = 4.0 * turned;
  return cost;
}

}  // namespace baleen
