#include "ops/sample/sample.h"

namespace baleen {

OpCost sample_cost(const SampleArgs& args) {
  const auto num_rows = static_cast<double>(args.logits.extent(0));
  const auto logits = static_cast<double>(args.logits.size());
  OpCost cost;
  cost.add_flops(MathFormat::kF32, 4 * logits);  // maximum; difference, exponential, sum
  cost.read_bytes = 4 * logits;
  cost.write_bytes = 4 * num_rows;
  return cost;
}

}  // namespace baleen
