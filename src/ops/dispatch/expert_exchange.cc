#include "ops/dispatch/expert_exchange.h"

#include <algorithm>

namespace baleen {

std::vector<SentRow> rows_for(const ExpertRanks& placement, const View<const std::int32_t, 2>& ids,
                              std::int64_t place) {
  const std::int64_t first_place = place / placement.moe_tp() * placement.moe_tp();
  std::vector<SentRow> rows;
  for (std::int64_t row = 0; row < ids.extent(0); ++row) {
    for (std::int64_t slot = 0; slot < ids.extent(1); ++slot) {
      const std::int32_t physical = placement.physical(ids, row, slot);
      if (physical >= 0 && placement.place_of(physical) == first_place) rows.push_back({row, slot});
    }
  }
  return rows;
}

double expected_ranks(double num_experts, double num_ranks, double num_chosen) {
  double none = 1;  // of the token's experts on a given rank
  const double elsewhere = num_experts - num_experts / num_ranks;
  for (double i = 0; i < num_chosen; ++i) none *= std::max(0.0, elsewhere - i) / (num_experts - i);
  return num_ranks * (1 - none);
}

}  // namespace baleen
