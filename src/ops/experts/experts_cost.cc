#include <cmath>
#include <vector>

#include "ops/experts/experts.h"

namespace baleen {
namespace {

OpCost expert_cost(const ExpertWeights& expert, std::int64_t num_rows) {
  OpCost cost = matmul_cost(expert.w1, num_rows);
  cost += matmul_cost(expert.w3, num_rows);
  cost += matmul_cost(expert.w2, num_rows);
  return cost;
}

}  // namespace

OpCost experts_cost(const ExpertsArgs& args) {
  std::vector<std::int64_t> visits(args.routed.size(), 0);
  for (std::int64_t row = 0; row < args.ids.extent(0); ++row) {
    for (std::int64_t slot = 0; slot < args.ids.extent(1); ++slot)
      ++visits[static_cast<std::size_t>(args.ids(row, slot))];
  }
  OpCost cost;
  for (std::size_t expert = 0; expert < visits.size(); ++expert)
    cost += expert_cost(args.routed[expert], visits[expert]);
  if (args.shared != nullptr) cost += expert_cost(*args.shared, args.x.extent(0));
  return cost;
}

OpCost expected_experts_cost(const ExpertsArgs& args) {
  const auto num_experts = static_cast<double>(args.routed.size());
  const auto num_rows = static_cast<double>(args.x.extent(0));
  const double share = static_cast<double>(args.ids.extent(1)) / num_experts;
  const double visited = num_experts * (1 - std::pow(1 - share, num_rows));
  // Of one expert: weights that are read once, and work that grows with the rows.
  const OpCost none = expert_cost(args.routed.front(), 0), one = expert_cost(args.routed.front(), 1);
  const double visits = num_rows * static_cast<double>(args.ids.extent(1));
  OpCost cost;
  for (std::size_t format = 0; format < cost.flops.size(); ++format)
    cost.flops[format] = visits * one.flops[format];
  cost.read_bytes = visited * none.read_bytes + visits * (one.read_bytes - none.read_bytes);
  cost.write_bytes = visits * one.write_bytes;
  if (args.shared != nullptr) cost += expert_cost(*args.shared, args.x.extent(0));
  return cost;
}

}  // namespace baleen
