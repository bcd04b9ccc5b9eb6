#include "ops/linear/linear.h"

namespace baleen {

OpCost linear_cost(const LinearArgs& args) {
  OpCost cost;
  for (const LinearOutput& output : args.outputs) cost += matmul_cost(*output.weight, args.x.extent(0));
  return cost;
}

std::int64_t linear_scratch_bytes(std::int64_t num_rows, std::int64_t num_inputs) {
  return 2 * matmul_scratch_bytes(num_rows, num_inputs);
}

}  // namespace baleen
