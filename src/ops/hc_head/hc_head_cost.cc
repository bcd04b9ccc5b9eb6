#include "ops/hc_head/hc_head.h"
#include "ops/hc_pre/hc_mix.h"
#include "ops/operation/argument_bytes.h"

namespace baleen {

OpCost hc_head_cost(const HcHeadArgs& args) {
  if (args.given.empty()) return hc_mix_cost(args.streams, args.weights, args.y);
  OpCost cost;
  cost.scalar_ops = 2 * static_cast<double>(args.streams.size());
  cost.read_bytes = bytes_of(args.streams) + bytes_of(args.given);
  cost.write_bytes = bytes_of(args.y);
  return cost;
}

OpCost hc_head_backward_cost(const HcHeadArgs& args) {
  if (!args.given.empty()) {
    OpCost cost;
    cost.scalar_ops = 4 * static_cast<double>(args.streams.size());  // to the streams, and of the weights
    cost.read_bytes = 2 * bytes_of(args.streams) + bytes_of(args.given) + bytes_of(args.y);
    cost.write_bytes = bytes_of(args.streams) + bytes_of(args.given);
    return cost;
  }
  return hc_mix_backward_cost(args.streams, args.weights, args.y);
}

}  // namespace baleen
