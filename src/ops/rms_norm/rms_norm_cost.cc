#include "ops/rms_norm/rms_norm.h"

namespace baleen {

OpCost rms_norm_cost(const RmsNormArgs& args) {
  const auto values = static_cast<double>(args.x.size());
  const double per_value = args.weight.empty() ? 3.0 : 4.0;  // square, add, scale, and the weight
  OpCost cost;
  cost.add_flops(MathFormat::kF32, per_value * values);
  cost.read_bytes = 4.0 * (values + static_cast<double>(args.weight.size()));
  cost.write_bytes = 4.0 * values;
  return cost;
}

}  // namespace baleen
