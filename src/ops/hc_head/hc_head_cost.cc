#include "ops/hc_head/hc_head.h"
#include "ops/hc_pre/hc_mix.h"

namespace baleen {

OpCost hc_head_cost(const HcHeadArgs& args) { return hc_mix_cost(args.streams, args.weights, args.y); }

OpCost hc_head_backward_cost(const HcHeadArgs& args) {
  return hc_mix_backward_cost(args.streams, args.weights, args.y);
}

}  // namespace baleen
