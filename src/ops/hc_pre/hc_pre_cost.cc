#include "ops/hc_pre/hc_mix.h"
#include "ops/operation/argument_bytes.h"

namespace baleen {
namespace {

/// For each of `count` values: sigmoid (exponential, sum, division), and a sum with hc_eps or a factor of
/// two.
double sigmoid_ops(double count) { return 4 * count; }

/// Of one token's n x n matrix. Half a step divides n lines by their sum + eps: n (n - 1) sums, n more, n n
/// divisions.
double sinkhorn_ops(double n, int iterations) {
  const double half_step = n * (n - 1) + n + n * n;
  // maximum and sum of every row; subtraction, exponential, division and eps for every element
  const double softmax = 2 * n * (n - 1) + 4 * n * n;
  return softmax + half_step + (iterations - 1) * 2 * half_step;
}

/// Of one token's matrix, backwards through the same steps, which are computed again before: of an element a
/// product and a sum along its line, a difference, a division, and its value before the step.
double sinkhorn_backward_ops(double n, int iterations) {
  const double softmax = 4 * n * n;
  return sinkhorn_ops(n, iterations) + (2 * iterations - 1) * 5 * n * n + softmax;
}

}  // namespace

OpCost hc_mix_cost(ConstActivations<3> streams, const HcWeights& weights, ConstActivations<2> sum) {
  OpCost cost;
  if (streams.size() == 0) return cost;
  const auto values = static_cast<double>(streams.size());
  const auto num_mixes = static_cast<double>(weights.fn.extent(0));
  cost.add_flops(MathFormat::kF32, 2 * values * num_mixes);
  cost.scalar_ops = values * (2 + 2);  // squares and their sum; the weighted sum
  cost.read_bytes = bytes_of(streams);
  cost.read_weights(4.0 * (static_cast<double>(weights.fn.size()) + static_cast<double>(weights.base.size()) +
                           static_cast<double>(weights.scale.size())));
  cost.write_bytes = bytes_of(sum);
  return cost;
}

OpCost hc_mix_backward_cost(ConstActivations<3> streams, const HcWeights& weights, ConstActivations<2> sum) {
  OpCost cost;
  if (streams.size() == 0) return cost;
  const auto values = static_cast<double>(streams.size());
  const auto num_rows = static_cast<double>(streams.extent(0));
  const auto num_streams = static_cast<double>(streams.extent(1));
  const auto num_mixes = static_cast<double>(weights.fn.extent(0));
  const double num_parameters = static_cast<double>(weights.fn.size()) +
                                static_cast<double>(weights.base.size()) +
                                static_cast<double>(weights.scale.size());
  cost.add_flops(MathFormat::kF32, 2 * 2 * values * num_mixes);  // of the streams, and of fn
  // Squares and their sum; the gradient of pre; what u and rho hand to the streams.
  cost.scalar_ops = values * (2 + 2 + 2 + 2);
  // A mix: times rho; its gradient times scale and rho; added to base's, scale's and rho's.
  cost.scalar_ops += num_rows * (8 * num_mixes + sigmoid_ops(num_streams) + 3 * num_streams);
  cost.read_bytes = bytes_of(streams) + 4.0 * num_rows * num_mixes + bytes_of(sum);
  cost.read_weights(4.0 * num_parameters);
  cost.write_bytes = bytes_of(streams);
  cost.accumulate_gradients(num_parameters);
  return cost;
}

OpCost hc_pre_cost(const HcPreArgs& args) {
  OpCost cost = hc_mix_cost(args.streams, args.weights, args.u);
  const auto num_rows = static_cast<double>(args.streams.extent(0));
  const auto num_streams = static_cast<double>(args.streams.extent(1));
  const auto num_mixes = static_cast<double>(args.weights.fn.extent(0));
  const double root = 3;                      // of the mean: division, eps, reciprocal root
  const double scaled_mixes = 3 * num_mixes;  // times rho, times scale, plus base
  cost.scalar_ops += num_rows * (root + scaled_mixes + sigmoid_ops(2 * num_streams) +
                                 sinkhorn_ops(num_streams, args.sinkhorn_iterations));
  cost.read_bytes += bytes_of(args.incoming);
  cost.write_bytes += bytes_of(args.post) + bytes_of(args.comb) + bytes_of(args.pre);
  return cost;
}

OpCost hc_pre_backward_cost(const HcPreArgs& args) {
  OpCost cost = hc_mix_backward_cost(args.streams, args.weights, args.u);
  if (args.streams.size() == 0) return cost;
  const auto num_rows = static_cast<double>(args.streams.extent(0));
  const auto num_streams = static_cast<double>(args.streams.extent(1));
  constexpr double kPostOps = 4;  // post (1 - post / 2), times its gradient
  cost.scalar_ops += num_rows * (kPostOps * num_streams + 2 * num_streams * num_streams +  // comb's logits
                                 sinkhorn_backward_ops(num_streams, args.sinkhorn_iterations));
  cost.read_bytes += 2 * bytes_of(args.post) + bytes_of(args.comb);  // post, its gradient and comb's
  return cost;
}

OpCost hc_pre_norm_cost(const HcPreArgs& pre, const RmsNormArgs& norm) {
  OpCost cost = hc_pre_cost(pre) + rms_norm_cost(norm);
  // u is written as the norm's result alone.
  cost.read_bytes -= bytes_of(norm.x);
  cost.write_bytes -= bytes_of(pre.u);
  return cost;
}

}  // namespace baleen
