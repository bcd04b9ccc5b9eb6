#include <algorithm>
#include <vector>

#include "ops/experts/experts.h"
#include "ops/linear/linear.h"
#include "ops/operation/argument_bytes.h"
#include "ops/operation/expected_distinct.h"

namespace baleen {
namespace {

/// Of an inner value: two clamps, SwiGLU (exponential, sum, division, two products), routing weight,
/// rounding.
constexpr double kSwigluOps = 14;

/// Of an inner value in the backward: two clamps, the sigmoid (3), silu, the activation and its weight (2),
/// its gradient's weight, both limits, g's gradient (6), v's, and the routing weight's (2).
constexpr double kSwigluBackwardOps = 20;

ActivationRounding rounding_of(const ExpertsArgs& args, const ExpertWeights& expert) {
  return activation_rounding(expert.w1, args.precision);
}

/// Products and SwiGLU of `num_rows` rows, and the weights, once.
OpCost expert_cost(const ExpertsArgs& args, const ExpertWeights& expert, double num_rows) {
  const ActivationRounding rounding = rounding_of(args, expert);
  OpCost cost = matmul_cost(expert.w1, num_rows, rounding);
  cost += matmul_cost(expert.w3, num_rows, rounding);
  cost += matmul_cost(expert.w2, num_rows, rounding);
  cost.scalar_ops = kSwigluOps * static_cast<double>(expert.w1.rows) * num_rows;
  return cost;
}

/// Gradients of the rows and of `distinct` experts' weights, which are read once each.
OpCost expert_backward_cost(const ExpertsArgs& args, const ExpertWeights& expert, double num_rows,
                            double distinct) {
  const ActivationRounding rounding = rounding_of(args, expert);
  const auto type_bytes = static_cast<double>(size_of(args.x.element_type()));
  const auto inner = static_cast<double>(expert.w1.rows) * num_rows;
  OpCost of_weights;
  for (const WeightMatrix* weight : {&expert.w1, &expert.w3, &expert.w2})
    of_weights += matmul_backward_cost(*weight, num_rows, rounding);
  OpCost cost;
  cost.flops = of_weights.flops;
  cost.scalar_ops = kSwigluBackwardOps * inner;
  cost.read_bytes = distinct * of_weights.read_bytes + 2 * type_bytes * inner;  // g and v
  cost.weight_bytes = distinct * of_weights.weight_bytes;
  cost.write_bytes = distinct * of_weights.write_bytes;
  return cost;
}

/// Of `num_rows` rows [d] of the type of `view`.
template <class Float>
double row_bytes(const ActivationView<Float, 2>& view, double num_rows) {
  return num_rows * static_cast<double>(view.extent(1) * size_of(view.element_type()));
}

}  // namespace

OpCost routed_experts_cost(const ExpertsArgs& args, double assignments, double distinct) {
  OpCost cost;
  if (assignments == 0) return cost;
  const ExpertWeights& expert = args.routed.front();
  const auto width = static_cast<double>(args.x.extent(1));
  cost = expert_cost(args, expert, assignments);
  cost.read_bytes = cost.weight_bytes = distinct * cost.weight_bytes;
  if (const std::int64_t group = fp8_group(rounding_of(args, expert)); group > 0) {
    cost.read_bytes += fp8_row_bytes(assignments, args.x.extent(1), group);
    if (!args.x_fp8) cost.scalar_ops += kQuantiseOps * width * assignments;
  } else {
    cost.read_bytes += row_bytes(args.x, assignments);
  }
  cost.write_bytes = row_bytes(args.x, assignments);
  return cost;
}

OpCost shared_expert_cost(const ExpertsArgs& args, double num_rows) {
  if (args.shared == nullptr || num_rows == 0) return {};
  OpCost cost = expert_cost(args, *args.shared, num_rows);
  cost.read_bytes += row_bytes(args.x, num_rows);
  cost.write_bytes = row_bytes(args.x, num_rows);
  return cost;
}

OpCost combine_cost(const ExpertsArgs& args, double assignments, double num_rows) {
  const double terms = assignments + (args.shared != nullptr ? num_rows : 0);
  OpCost cost;
  cost.scalar_ops = terms * static_cast<double>(args.out.extent(1));
  cost.read_bytes = row_bytes(args.x, terms);
  cost.write_bytes = row_bytes(args.out, num_rows);
  return cost;
}

OpCost experts_cost_of(const ExpertsArgs& args, double assignments, double distinct) {
  const auto num_rows = static_cast<double>(args.x.extent(0));
  const OpCost products =
      routed_experts_cost(args, assignments, distinct) + shared_expert_cost(args, num_rows);
  const bool adds = args.ids.extent(1) + (args.shared != nullptr ? 1 : 0) > 1;
  return adds ? products + combine_cost(args, assignments, num_rows) : products;
}

OpCost experts_backward_cost_of(const ExpertsArgs& args, double assignments, double distinct) {
  const auto num_rows = static_cast<double>(args.x.extent(0));
  OpCost cost;
  if (assignments > 0) {
    cost += expert_backward_cost(args, args.routed.front(), assignments, distinct);
    // An assignment's input, and its part of the result's gradient; its input's gradient, its weight's.
    cost.read_bytes += 2 * row_bytes(args.x, assignments);
    cost.write_bytes += row_bytes(args.x, assignments) + 4.0 * assignments;
  }
  if (args.shared != nullptr && num_rows > 0) {
    cost += expert_backward_cost(args, *args.shared, num_rows, 1);
    cost.read_bytes += 2 * row_bytes(args.x, num_rows);
    cost.write_bytes += row_bytes(args.x, num_rows);
  }
  // A token's gradient is the sum over its assignments, as its result was.
  const bool adds = args.ids.extent(1) + (args.shared != nullptr ? 1 : 0) > 1;
  return adds ? cost + combine_cost(args, assignments, num_rows) : cost;
}

namespace {

/// Rows that go to experts of this rank, by the ids, and how many of its experts get any.
ExpertLoad load_of(const ExpertsArgs& args) {
  std::vector<bool> active(args.routed.size());
  double assignments = 0;
  for (std::int64_t row = 0; row < args.ids.extent(0); ++row) {
    for (std::int64_t slot = 0; slot < args.ids.extent(1); ++slot) {
      const std::int64_t expert = args.local_expert(row, slot);
      if (expert < 0) continue;  // of a padding row, or of another rank
      active[static_cast<std::size_t>(expert)] = true;
      ++assignments;
    }
  }
  return {assignments, static_cast<double>(std::ranges::count(active, true))};
}

ExpertLoad expected_load(const ExpertsArgs& args) {
  if (args.hints.expected) return *args.hints.expected;
  const auto num_rows = static_cast<double>(args.x.extent(0));
  const auto num_selected = static_cast<double>(args.ids.extent(1));
  return {num_rows * num_selected,
          expected_distinct(static_cast<double>(args.routed.size()), num_selected, num_rows)};
}

}  // namespace

OpCost experts_cost(const ExpertsArgs& args) {
  const ExpertLoad load = load_of(args);
  return experts_cost_of(args, load.assignments, load.distinct);
}

OpCost experts_backward_cost(const ExpertsArgs& args) {
  const ExpertLoad load = load_of(args);
  return experts_backward_cost_of(args, load.assignments, load.distinct);
}

OpCost expected_experts_cost(const ExpertsArgs& args) {
  const ExpertLoad load = expected_load(args);
  return experts_cost_of(args, load.assignments, load.distinct);
}

OpCost expected_experts_backward_cost(const ExpertsArgs& args) {
  const ExpertLoad load = expected_load(args);
  return experts_backward_cost_of(args, load.assignments, load.distinct);
}

}  // namespace baleen
