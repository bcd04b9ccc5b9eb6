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

ActivationRounding rounding_of(const ExpertsArgs& args, const ExpertWeights& expert) {
  return activation_rounding(expert.w1.format, args.precision);
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
  if (rounding_of(args, expert) == ActivationRounding::kFp8) {
    cost.read_bytes += fp8_row_bytes(assignments, args.x.extent(1));
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

OpCost experts_cost(const ExpertsArgs& args) {
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
  return experts_cost_of(args, assignments, static_cast<double>(std::ranges::count(active, true)));
}

OpCost expected_experts_cost(const ExpertsArgs& args) {
  if (args.expected) return experts_cost_of(args, args.expected->assignments, args.expected->distinct);
  const auto num_rows = static_cast<double>(args.x.extent(0));
  const auto num_selected = static_cast<double>(args.ids.extent(1));
  return experts_cost_of(args, num_rows * num_selected,
                         expected_distinct(static_cast<double>(args.routed.size()), num_selected, num_rows));
}

}  // namespace baleen
