#include "ops/hc_post/hc_post.h"

namespace baleen {

OpCost hc_post_cost(const HcPostArgs& args) {
  const auto values = static_cast<double>(args.streams.size());
  OpCost cost;
  cost.add_flops(MathFormat::kF32, values * (2.0 * static_cast<double>(args.streams.extent(1)) + 1.0));
  cost.read_bytes = 4.0 * (values + static_cast<double>(args.f.size() + args.post.size() + args.comb.size()));
  cost.write_bytes = 4.0 * values;
  return cost;
}

}  // namespace baleen
