#include "model/rank_layout.h"

#include <algorithm>

#include "base/error.h"

namespace baleen {
namespace {

constexpr ParallelPlan kOneRank{.num_devices = 1,
                                .tp = 1,
                                .cp = 1,
                                .dp = 1,
                                .ep = 1,
                                .pp = 1,
                                .moe_tp = 1,
                                .o_proj_tp = 1,
                                .lmhead_tp = 1};

}  // namespace

std::vector<RowRange> even_rows(std::int64_t num_rows, std::int64_t parts) {
  const std::int64_t size = (num_rows + parts - 1) / parts;
  std::vector<RowRange> ranges;
  for (std::int64_t i = 0; i < parts; ++i) {
    ranges.push_back({std::min(i * size, num_rows), std::min((i + 1) * size, num_rows)});
  }
  return ranges;
}

RankLayout::RankLayout() : plan_(kOneRank), expert_transport_(&baleen::expert_transport(plan_)) {}

RankLayout::RankLayout(const ModelConfig& config, const ParallelPlan& plan, const Stage& stage,
                       std::int64_t stage_index, std::int64_t stage_rank)
    : plan_(plan),
      expert_transport_(&baleen::expert_transport(plan)),
      stage_(stage),
      num_output_groups_(config.o_groups) {
  const std::int64_t num_ranks = plan.stage_ranks(), first = stage_index * num_ranks;
  const std::int64_t rank = first + stage_rank, tp_index = stage_rank % plan.tp;
  const std::int64_t tp_first = rank - tp_index;
  for (const std::int64_t block : {std::int64_t{0}, config.num_hidden_layers}) {
    const std::int64_t num_experts = config.num_routed_experts(block);
    if (plan.places_linearly() || placed_map(num_experts)) continue;
    placed_maps_.push_back(std::make_shared<const ExpertMap>(
        ExpertMap::placed(plan.expert_placement, num_experts, plan.redundant_experts, plan.ep)));
  }
  stage_ranks_ = RankGroup::strided(first, 1, num_ranks, rank);
  group_ = RankGroup::strided(rank - stage_rank % plan.group_ranks(), 1, plan.group_ranks(), rank);
  vocabulary_ = RankGroup::strided(rank - stage_rank % plan.lmhead_tp, 1, plan.lmhead_tp, rank);
  output_heads_ = output_rows_ = RankGroup{.ranks = {rank}};
  if (plan.o_proj_tp <= plan.tp) {
    const std::int64_t copies = plan.tp / plan.o_proj_tp;
    output_heads_ = RankGroup::strided(rank - tp_index % copies, 1, copies, rank);
    output_sums_ = RankGroup::strided(tp_first + tp_index % copies, copies, plan.o_proj_tp, rank);
  } else {
    const std::int64_t sums_first = first + stage_rank / plan.o_proj_tp * plan.o_proj_tp;
    output_sums_ = RankGroup::strided(sums_first, 1, plan.o_proj_tp, rank);
    output_rows_ = RankGroup::strided(sums_first + tp_index, plan.tp, plan.o_proj_tp / plan.tp, rank);
  }
  if (!stage.first) previous_stage_ = RankGroup::strided(rank - num_ranks, num_ranks, 2, rank);
  if (!stage.last) next_stage_ = RankGroup::strided(rank, num_ranks, 2, rank);
}

std::shared_ptr<const ExpertMap> RankLayout::placed_map(std::int64_t num_experts) const {
  const auto found = std::ranges::find(placed_maps_, num_experts, &ExpertMap::num_experts);
  return found == placed_maps_.end() ? nullptr : *found;
}

std::int64_t RankLayout::first_output_group() const {
  if (plan_.o_proj_tp <= plan_.tp) return output_sums_.place * output_groups();
  return (tp_index() * output_row_groups() + output_rows_.place) * output_groups();
}

std::int64_t RankLayout::part_of(TensorSplit split) const {
  switch (split) {
    case TensorSplit::kReplicated:
      return 0;
    case TensorSplit::kHeads:
      return tp_index();
    case TensorSplit::kOutputGroups:
    case TensorSplit::kGroupColumns:
      return first_output_group() / output_groups();
    case TensorSplit::kVocabulary:
      return vocabulary_.place;
    case TensorSplit::kSharedRows:
    case TensorSplit::kSharedColumns:
      return stage_ranks_.place;
    case TensorSplit::kExpertRows:
    case TensorSplit::kExpertColumns:
      return stage_ranks_.place % plan_.moe_tp;
  }
  return 0;
}

std::int64_t RankLayout::most_arriving_rows(std::int64_t max_rows, std::int64_t experts_per_token) const {
  if (!expert_transport_->way) return 0;
  const std::int64_t tokens =
      stage_ranks_.size() * ((max_rows + plan_.group_ranks() - 1) / plan_.group_ranks());
  return *expert_transport_->way == DispatchWay::kGatheredTokens ? tokens : tokens * experts_per_token;
}

std::vector<RowRange> RankLayout::kept_rows(std::int64_t num_rows) const {
  if (plan_.shares_rows()) return even_rows(num_rows, plan_.group_ranks());
  return std::vector<RowRange>(static_cast<std::size_t>(plan_.group_ranks()), {0, num_rows});
}

std::vector<RowRange> RankLayout::output_shares(std::int64_t num_rows) const {
  std::vector<RowRange> shares;
  const std::int64_t row_groups = output_row_groups();
  const std::vector<RowRange> of_group = even_rows(num_rows / row_groups, plan_.group_ranks());
  if (row_groups == 1) {
    for (const std::int64_t member : output_sums_.ranks)
      shares.push_back(of_group[static_cast<std::size_t>(member - group_.ranks.front())]);
    return shares;
  }
  for (std::int64_t group = 0; group < row_groups; ++group) {
    const std::int64_t first = group * (num_rows / row_groups);
    for (const RowRange& rows : of_group) shares.push_back({first + rows.begin, first + rows.end});
  }
  return shares;
}

void check_runnable(const ParallelPlan& plan, const ModelConfig& config) {
  validate(plan, config);
  if (plan.maps_by_layer && plan.ep == 1) {
    fail(
        "‹balancing› and ‹expert map›: every rank has all experts (‹expert parallelism› 1), there is nothing "
        "to place; leave them out, or ‹expert parallelism› 2");
  }
  if (plan.redundant_experts > 0 && plan.ep == 1) {
    fail(
        "‹copies of experts› {}: every rank has all experts (‹expert parallelism› 1), copies would never be "
        "used; leave it out",
        plan.redundant_experts);
  }
  if (plan.lmhead_tp > plan.group_ranks()) {
    fail(
        "‹split of the vocabulary› {}: ranks split the vocabulary over the ‹{} parallelism› {} that have the "
        "same tokens; that many at most",
        plan.lmhead_tp, plan.cp > 1 ? "context" : "tensor", plan.group_ranks());
  }
}

}  // namespace baleen
