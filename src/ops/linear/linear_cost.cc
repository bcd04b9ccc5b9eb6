#include "ops/linear/linear.h"
#include "ops/operation/argument_bytes.h"

namespace baleen {

OpCost linear_cost(const LinearArgs& args) {
  OpCost cost;
  const auto num_rows = static_cast<double>(args.x.extent(0));
  if (num_rows == 0) return cost;
  std::int64_t group = 0;  // of products that take x as FP8
  bool plain = false;      // some product takes x as it is
  for (const LinearOutput& output : args.outputs) {
    const ActivationRounding rounding = activation_rounding(*output.weight, args.precision);
    if (const std::int64_t own = fp8_group(rounding); own > 0) {
      group = own;
    } else {
      plain = true;
    }
    cost += matmul_cost(*output.weight, num_rows, rounding);
    cost.write_bytes += bytes_of(output.y);
  }
  if (group > 0 && args.x_fp8) {
    cost.read_bytes += fp8_row_bytes(num_rows, args.x.extent(1), group);
  } else if (group > 0) {
    cost.scalar_ops += kQuantiseOps * static_cast<double>(args.x.size());
    plain = true;
  }
  if (plain) cost.read_bytes += bytes_of(args.x);
  return cost;
}

OpCost linear_backward_cost(const LinearArgs& args) {
  OpCost cost;
  const auto num_rows = static_cast<double>(args.x.extent(0));
  if (num_rows == 0) return cost;
  bool trains_input = false;
  for (const LinearOutput& output : args.outputs) {
    cost += matmul_backward_cost(*output.weight, num_rows,
                                 activation_rounding(*output.weight, args.precision), output.trains_input);
    cost.read_bytes += bytes_of(output.y);
    trains_input |= output.trains_input;
  }
  cost.read_bytes += bytes_of(args.x);
  if (trains_input) cost.write_bytes += bytes_of(args.x);
  return cost;
}

std::int64_t linear_scratch_bytes(std::int64_t num_rows, std::int64_t num_inputs) {
  return 2 * matmul_scratch_bytes(num_rows, num_inputs);
}

}  // namespace baleen
