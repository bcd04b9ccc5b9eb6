#include "forward/expert_messages.h"

#include <algorithm>

namespace baleen {

ExpertMessages::ExpertMessages(const RankConfig& rank, const RankLayout& layout, MessageArrays& arrays) {
  const ExpertTransportTraits& transport = layout.expert_transport();
  if (layout.stage_ranks().size() == 1 || !transport.way) return;
  const std::int64_t most = layout.most_arriving_rows(arrays.max_rows(), rank.model().num_experts_per_tok);
  const std::int64_t width = rank.model().hidden_size;
  const std::int64_t chosen =
      *transport.way == DispatchWay::kGatheredTokens ? rank.model().num_experts_per_tok : 1;
  arrived = arrays.values(most, width);
  // Rows of which 32 values share a scale travel as they are.
  if (arrays.type() == ElementType::kBf16 && sends_fp8_rows(*transport.way) &&
      rank.model().activation_group() == kActivationGroup)
    arrived_fp8 = arrays.fp8(most, width);
  arrived_ids = arrays.integers(most, chosen);
  arrived_weights = arrays.floats(most, chosen);
  if (transport.adds_sums) return;
  outputs = layout.plan().moe_tp > 1 ? arrays.floats(most, width) : arrays.values(most, width);
  shared = arrays.values(arrays.max_rows(), width);
}

ExpertMessages ExpertMessages::from_row(std::int64_t first, std::int64_t first_arrived) const {
  ExpertMessages rest;
  rest.arrived = rows_from(arrived, first_arrived);
  rest.arrived_fp8 = rows_from(arrived_fp8, first_arrived, arrived.extent(1));
  rest.arrived_ids = rows_from(arrived_ids, first_arrived);
  rest.arrived_weights = rows_from(arrived_weights, first_arrived);
  rest.outputs = rows_from(outputs, first_arrived);
  rest.shared = rows_from(shared, first);
  return rest;
}

std::int64_t expert_sum_rows(const RankConfig& rank, const RankLayout& layout, std::int64_t max_rows) {
  if (!layout.expert_transport().adds_sums) return 0;
  return std::max(max_rows, layout.most_arriving_rows(max_rows, rank.model().num_experts_per_tok));
}

}  // namespace baleen
