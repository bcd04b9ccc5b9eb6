#include "ops/operation/argument_bytes.h"
#include "ops/sample/sample.h"

namespace baleen {

OpCost sample_cost(const SampleArgs& args) {
  OpCost cost;
  cost.scalar_ops = 3 * static_cast<double>(args.logits.size());  // comparison; exponential, sum
  cost.read_bytes = bytes_of(args.logits);                        // beside a row of logits its id is nothing
  return cost;
}

}  // namespace baleen
