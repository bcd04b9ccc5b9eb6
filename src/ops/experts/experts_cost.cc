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

}  // namespace baleen
