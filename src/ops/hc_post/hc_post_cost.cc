#include "ops/hc_post/hc_post.h"
#include "ops/operation/argument_bytes.h"

namespace baleen {

OpCost hc_post_cost(const HcPostArgs& args) {
  const auto values = static_cast<double>(args.streams.size());
  OpCost cost;
  // A value of a stream: one product with f, and a multiply-add for every stream.
  cost.scalar_ops = values * (2.0 * static_cast<double>(args.streams.extent(1)) + 1.0);
  cost.read_bytes = bytes_of(args.f) + bytes_of(args.post) + bytes_of(args.comb) + bytes_of(args.streams);
  cost.write_bytes = bytes_of(args.streams);
  return cost;
}

OpCost hc_post_backward_cost(const HcPostArgs& args) {
  const auto values = static_cast<double>(args.streams.size());
  OpCost cost;
  // A value of a stream's gradient: into f's and post's, and for every stream into its own and comb's.
  cost.scalar_ops = values * (4.0 + 4.0 * static_cast<double>(args.streams.extent(1)));
  const double inputs = bytes_of(args.f) + bytes_of(args.post) + bytes_of(args.comb) + bytes_of(args.streams);
  cost.read_bytes = inputs + bytes_of(args.streams);
  cost.write_bytes = inputs;
  return cost;
}

OpCost hc_post_pre_norm_cost(const HcPostArgs& post, const HcPreArgs& pre, const RmsNormArgs& norm) {
  OpCost cost = hc_post_cost(post) + hc_pre_norm_cost(pre, norm);
  // The next sublayer takes the streams as they are made.
  cost.read_bytes -= bytes_of(pre.streams);
  return cost;
}

}  // namespace baleen
