#include "model/rank_config.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "model/expert_transport.h"
#include "model/parallel_plan.h"
#include "numeric/block_scale.h"

namespace baleen {

namespace {

/// The earliest layer whose entries or selection the layer reads; itself where it makes what it reads.
std::int64_t earliest_source(const ModelConfig& config, std::int64_t layer) {
  const LayerAttention shape = config.attention(layer);
  std::int64_t source = std::min(layer, shape.entries_of(layer));
  if (shape.index_source) source = std::min(source, *shape.index_source);
  if (shape.candidates) source = std::min(source, shape.candidates->source);
  return source;
}

/// Begins of `pp` stages, and the end of the last: of those whose begins are among `begins` the ones with
/// the least sum of squared sizes, and of these the one whose first stages are largest. Empty: there are
/// none.
std::vector<std::int64_t> even_cuts(std::vector<std::int64_t> begins, std::int64_t num_layers,
                                    std::int64_t pp) {
  if (std::ssize(begins) < pp) return {};
  begins.push_back(num_layers);
  const std::size_t end = begins.size() - 1;
  constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::max();
  // least[i]: of the layers from begins[i] on in as many stages as were counted; next[s][i]: where the
  // first of s + 1 stages ends.
  std::vector<std::int64_t> least(end + 1, kNone);
  least[end] = 0;
  std::vector<std::vector<std::size_t>> next;
  for (std::int64_t count = 0; count < pp; ++count) {
    std::vector<std::int64_t> sums(end + 1, kNone);
    std::vector<std::size_t> ends(end + 1);
    for (std::size_t from = 0; from < end; ++from) {
      for (std::size_t to = from + 1; to <= end; ++to) {
        if (least[to] == kNone) continue;
        const std::int64_t size = begins[to] - begins[from], sum = size * size + least[to];
        if (sum <= sums[from]) sums[from] = sum, ends[from] = to;
      }
    }
    least = std::move(sums);
    next.push_back(std::move(ends));
  }
  std::vector<std::int64_t> cuts{0};
  for (std::size_t at = 0; !next.empty(); next.pop_back()) {
    at = next.back()[at];
    cuts.push_back(begins[at]);
  }
  return cuts;
}

}  // namespace

std::optional<std::int64_t> read_from_before(const ModelConfig& config, std::int64_t layer) {
  std::int64_t source = layer;
  for (std::int64_t later = layer; later < config.num_hidden_layers; ++later)
    source = std::min(source, earliest_source(config, later));
  return source < layer ? std::optional(source) : std::nullopt;
}

std::vector<std::int64_t> stage_begins(const ModelConfig& config) {
  std::vector<std::int64_t> begins;
  std::int64_t source = config.num_hidden_layers;  // of the layer and all behind it
  for (std::int64_t layer = config.num_hidden_layers - 1; layer >= 0; --layer) {
    source = std::min(source, earliest_source(config, layer));
    if (source == layer) begins.push_back(layer);
  }
  std::ranges::reverse(begins);
  return begins;
}

Stage even_stage(const ModelConfig& config, std::int64_t pp, std::int64_t index) {
  const std::int64_t layers = config.num_hidden_layers;
  std::vector<std::int64_t> cuts = even_cuts(stage_begins(config), layers, pp);
  for (std::int64_t i = 0; std::ssize(cuts) <= pp; ++i)
    cuts.push_back(i * (layers / pp) + std::min(i, layers % pp));
  const auto first = cuts.begin() + index;
  return {.begin = first[0], .end = first[1], .first = index == 0, .last = index + 1 == pp};
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
