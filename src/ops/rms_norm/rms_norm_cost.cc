#include "ops/operation/argument_bytes.h"
#include "ops/rms_norm/rms_norm.h"

namespace baleen {

OpCost rms_norm_cost(const RmsNormArgs& args) {
  OpCost cost;
  if (args.x.size() == 0) return cost;
  const auto values = static_cast<double>(args.x.size());
  // Without a weight the fourth operation is a rounding on the way.
  cost.scalar_ops = kNormOps * values;
  cost.read_bytes = bytes_of(args.x);
  cost.read_weights(norm_weight_bytes(static_cast<std::int64_t>(args.weight.size())));
  cost.write_bytes = bytes_of(args.y);
  if (args.y_fp8) {
    cost.scalar_ops += kQuantiseOps * values;
    cost.write_bytes +=
        fp8_row_bytes(static_cast<double>(args.x.extent(0)), args.x.extent(1), args.y_fp8.group);
  }
  return cost;
}

OpCost rms_norm_backward_cost(const RmsNormArgs& args) {
  OpCost cost;
  if (args.x.size() == 0) return cost;
  cost.scalar_ops =
      (args.weight.empty() ? kPlainNormBackwardOps : kNormBackwardOps) * static_cast<double>(args.x.size());
  cost.read_bytes = bytes_of(args.x) + bytes_of(args.y);
  cost.read_weights(norm_weight_bytes(static_cast<std::int64_t>(args.weight.size())));
  cost.write_bytes = bytes_of(args.x);
  cost.accumulate_gradients(static_cast<double>(args.weight.size()));
  return cost;
}

OpCost rms_norm_rope_cost(const RmsNormArgs& norm, const RopeArgs& rotation) {
  OpCost cost = rms_norm_cost(norm);
  cost.scalar_ops += rope_cost(rotation).scalar_ops;
  return cost;
}

}  // namespace baleen
