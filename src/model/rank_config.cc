#include "model/rank_config.h"

#include <algorithm>
#include <numeric>

#include "model/expert_transport.h"
#include "model/parallel_plan.h"
#include "numeric/block_scale.h"

namespace baleen {

Stage even_stage(const ModelConfig& config, std::int64_t pp, std::int64_t index) {
  const std::int64_t layers = config.num_hidden_layers;
  const auto begin_of = [&](std::int64_t i) { return i * (layers / pp) + std::min(i, layers % pp); };
  return {.begin = begin_of(index), .end = begin_of(index + 1), .first = index == 0, .last = index + 1 == pp};
}

Stage stage_of(const ModelConfig& config, const ParallelPlan& plan, std::int64_t index) {
  Stage stage = even_stage(config, plan.pp, index);
  if (plan.stage_layers.empty()) return stage;
  const auto first = plan.stage_layers.begin();
  stage.begin = std::accumulate(first, first + index, std::int64_t{0});
  stage.end = stage.begin + plan.stage_layers[static_cast<std::size_t>(index)];
  return stage;
}

LayerAttention RankConfig::attention(std::int64_t block) const {
  LayerAttention shape = model_->attention(model_block(block));
  shape.num_heads = num_attention_heads();
  for (std::optional<std::int64_t>* source : {&shape.key_source, &shape.index_source})
    if (*source) **source -= stage_.begin;
  if (shape.candidates) shape.candidates->source -= stage_.begin;
  return shape;
}

std::int64_t RankConfig::o_groups() const { return std::max<std::int64_t>(1, model_->o_groups / share_.tp); }

RankConfig rank_config(const ModelConfig& config, const ParallelPlan& plan, const Stage& stage) {
  // Ranks that add up float32 sums of all their tokens add parts of the shared expert's as well.
  const std::int64_t ranks = plan.stage_ranks();
  const bool splits_shared = plan.shared_tp != 1 && expert_transport(plan).adds_sums &&
                             config.moe_intermediate_size % (ranks * kWeightBlock) == 0;
  return {config,
          stage,
          {.tp = plan.tp,
           .o_proj_tp = plan.o_proj_tp,
           .lm_head_tp = plan.lmhead_tp,
           .shared_tp = splits_shared ? ranks : 1,
           .moe_tp = plan.moe_tp,
           .ep = plan.ep,
           .redundant_experts = plan.redundant_experts,
           .embedding = stage.first || (stage.last && config.num_draft_blocks() > 0),
           .head = stage.last}};
}

}  // namespace baleen
