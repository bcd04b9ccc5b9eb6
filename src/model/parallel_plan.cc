#include "model/parallel_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "model/model_family.h"
#include "model/rank_config.h"
#include "numeric/block_scale.h"

namespace baleen {
namespace {

/// Of those in [1, whole] that divide `whole`, the one nearest to `wanted`.
std::int64_t nearest_divisor(std::int64_t whole, std::int64_t wanted) {
  std::int64_t best = 1;
  for (std::int64_t candidate = 1; candidate <= whole; ++candidate) {
    if (whole % candidate == 0 && std::abs(candidate - wanted) < std::abs(best - wanted)) best = candidate;
  }
  return best;
}

/// What the ranks of a data-parallel group share out.
std::string_view group_name(const ParallelPlan& plan) { return plan.cp > 1 ? "cp" : "tp"; }
std::string group_text(const ParallelPlan& plan) {
  return fmt::format("{} {}", group_name(plan), plan.group_ranks());
}

/// Of ranks that share out rows and hold all that attention computes with.
void find_context_violations(const ParallelPlan& plan, std::vector<std::string>& found) {
  if (plan.tp > 1) {
    found.push_back(
        fmt::format("‹context parallelism› {} with ‹tensor parallelism› {}: ranks that share out rows have "
                    "all heads; ‹context parallelism› {} alone is as many ranks",
                    plan.cp, plan.tp, plan.group_ranks()));
  } else if (plan.o_proj_tp > 1) {
    found.push_back(
        fmt::format("‹split of output projections› {} with ‹context parallelism› {}: ranks that share out "
                    "rows have whole output projections; ‹split of output projections› 1",
                    plan.o_proj_tp, plan.cp));
  }
  if (plan.sequence_parallel) {
    found.push_back(
        fmt::format("‹sequence parallelism› with ‹context parallelism› {}: rows are shared out already; "
                    "leave out one of them",
                    plan.cp));
  }
}

/// Of stages whose layers are given.
void find_stage_violations(const ParallelPlan& plan, const ModelConfig& config,
                           std::vector<std::string>& found) {
  const std::vector<std::int64_t>& layers = plan.stage_layers;
  if (std::ssize(layers) != plan.pp) {
    found.push_back(fmt::format("‹stage layers› {}: {} stages, but ‹pipeline parallelism› {}",
                                fmt::join(layers, ","), layers.size(), plan.pp));
  }
  const bool has_empty = std::ranges::any_of(layers, [](std::int64_t count) { return count < 1; });
  const std::int64_t sum = std::accumulate(layers.begin(), layers.end(), std::int64_t{0});
  if (has_empty || sum != config.num_hidden_layers) {
    found.push_back(
        fmt::format("‹stage layers› {}: the model has {} layers, each in one stage, and a stage one at least",
                    fmt::join(layers, ","), config.num_hidden_layers));
  }
}

/// Of stages that begin with layers which read what layers of a stage before them make.
void find_cut_violations(const ParallelPlan& plan, const ModelConfig& config,
                         std::vector<std::string>& found) {
  for (std::int64_t index = 1; index < plan.pp; ++index) {
    const std::int64_t begin = stage_of(config, plan, index).begin;
    const std::optional<std::int64_t> source = read_from_before(config, begin);
    if (!source) continue;
    const std::vector<std::int64_t> begins = stage_begins(config);
    found.push_back(fmt::format(
        "‹pipeline parallelism› {}: stage {} begins with layer {}, behind which layers read what layer {} of "
        "a stage before makes; stages begin with layers {}, so ‹pipeline parallelism› {} at most",
        plan.pp, index, begin, *source, fmt::join(begins, ", "), begins.size()));
    return;
  }
}

/// Experts of every block lie on as many ranks, as many on each.
void find_expert_violations(const ParallelPlan& plan, const ModelConfig& config,
                            std::vector<std::string>& found) {
  const std::int64_t of_layers = config.n_routed_experts + plan.redundant_experts;
  const std::string_view copies = plan.redundant_experts > 0 ? " with their copies" : "";
  if (of_layers % plan.ep != 0) {
    found.push_back(
        fmt::format("‹expert parallelism› {}: {} experts{} cannot be shared out evenly; ‹expert parallelism› "
                    "{} or ‹copies of experts› {} would do",
                    plan.ep, of_layers, copies, nearest_divisor(of_layers, plan.ep),
                    plan.redundant_experts + plan.ep - of_layers % plan.ep));
    return;
  }
  const std::int64_t of_drafts = config.num_routed_experts(config.num_hidden_layers) + plan.redundant_experts;
  if (of_drafts % plan.ep == 0) return;
  found.push_back(fmt::format(
      "‹expert parallelism› {}: {} experts{} of the draft head's blocks cannot be shared out "
      "evenly, where layers have {}; ‹expert parallelism› {} would do",
      plan.ep, of_drafts, copies, of_layers, nearest_divisor(std::gcd(of_layers, of_drafts), plan.ep)));
}

}  // namespace

ParallelPlan resolved(ParallelPlan plan, const ModelConfig& config) {
  const auto fill = [](std::int64_t& value, std::int64_t otherwise) {
    if (value == 0) value = std::max<std::int64_t>(1, otherwise);
  };
  fill(plan.pp, std::ssize(plan.stage_layers));
  fill(plan.tp, 1);
  fill(plan.cp, 1);
  const std::int64_t group = plan.group_ranks();
  // Experts over more ranks than a group has are spread over several groups.
  const std::int64_t expert_ranks = plan.ep * std::max<std::int64_t>(1, plan.moe_tp);
  const std::int64_t groups = group > 0 ? std::max<std::int64_t>(1, (expert_ranks + group - 1) / group) : 1;
  if (plan.num_devices == 0) plan.num_devices = plan.pp * group * (plan.dp > 0 ? plan.dp : groups);
  fill(plan.dp, plan.num_devices / std::max<std::int64_t>(1, plan.pp * group));
  if (plan.ep == 0) plan.ep = plan.moe_tp == 0 ? plan.stage_ranks() : plan.stage_ranks() / plan.moe_tp;
  fill(plan.ep, 1);
  fill(plan.moe_tp, plan.ep > 0 ? plan.stage_ranks() / plan.ep : 1);
  fill(plan.o_proj_tp, std::min(plan.tp, config.o_groups));
  fill(plan.lmhead_tp, group);
  return plan;
}

ParallelPlan with_experts_of_gpus(ParallelPlan plan) {
  if (plan.moe_tp <= 1 && plan.shared_tp == 0) plan.shared_tp = 1;
  return plan;
}

std::vector<std::string> violations(const ParallelPlan& plan, const ModelConfig& config) {
  std::vector<std::string> found;
  for (const auto& [name, value] : {std::pair{"‹number of devices›", plan.num_devices},
                                    {"‹tensor parallelism›", plan.tp},
                                    {"‹context parallelism›", plan.cp},
                                    {"‹data parallelism›", plan.dp},
                                    {"‹expert parallelism›", plan.ep},
                                    {"‹pipeline parallelism›", plan.pp},
                                    {"‹split of experts›", plan.moe_tp},
                                    {"‹split of output projections›", plan.o_proj_tp},
                                    {"‹split of the vocabulary›", plan.lmhead_tp}}) {
    if (value < 1 || value > kMaxRanks)
      found.push_back(fmt::format("{} {}: 1 to {} are possible", name, value, kMaxRanks));
  }
  if (plan.redundant_experts < 0 || plan.redundant_experts > kMaxRanks) {
    found.push_back(
        fmt::format("‹copies of experts› {}: 0 to {} are possible", plan.redundant_experts, kMaxRanks));
  }
  if (plan.prefill_groups < 0 || (plan.prefill_groups > 0 && plan.prefill_groups >= plan.dp)) {
    found.push_back(fmt::format(
        "‹prefill groups› {}: of ‹data parallelism› {} groups one at least decodes; ‹prefill groups› {} or "
        "‹data parallelism› {} would do",
        plan.prefill_groups, plan.dp, std::max<std::int64_t>(0, plan.dp - 1), plan.prefill_groups + 1));
  }
  if (!found.empty()) return found;

  const std::int64_t ranks = plan.stage_ranks();
  if (plan.num_devices != plan.pp * ranks) {
    found.push_back(
        fmt::format("{} devices, but pp {} x dp {} x {} = {}: for these ‹data parallelism› {} would fit",
                    plan.num_devices, plan.pp, plan.dp, group_text(plan), plan.pp * ranks,
                    std::max<std::int64_t>(1, plan.num_devices / (plan.pp * plan.group_ranks()))));
  }
  if (plan.cp > 1) find_context_violations(plan, found);
  if (config.num_attention_heads % plan.tp != 0) {
    found.push_back(fmt::format("‹tensor parallelism› {}: {} heads cannot be shared out evenly; {} is near",
                                plan.tp, config.num_attention_heads,
                                nearest_divisor(config.num_attention_heads, plan.tp)));
  }
  if (plan.ep * plan.moe_tp != ranks) {
    found.push_back(
        fmt::format("‹expert parallelism› {} x ‹split of experts› {} = {}: experts live on the dp x {} = {} "
                    "ranks of a stage; ‹expert parallelism› {} is near",
                    plan.ep, plan.moe_tp, plan.ep * plan.moe_tp, group_name(plan), ranks,
                    nearest_divisor(ranks, plan.ep)));
  }
  find_expert_violations(plan, config, found);
  const std::int64_t blocks = config.moe_intermediate_size / kWeightBlock;
  if (config.moe_intermediate_size % (plan.moe_tp * kWeightBlock) != 0) {
    found.push_back(fmt::format(
        "‹split of experts› {}: an expert's inner width {} is cut in multiples of {}; {} is near",
        plan.moe_tp, config.moe_intermediate_size, kWeightBlock, nearest_divisor(blocks, plan.moe_tp)));
  }
  if (plan.o_proj_tp > config.o_groups || config.o_groups % plan.o_proj_tp != 0) {
    found.push_back(fmt::format(
        "‹split of output projections› {}: the output projection has {} groups, which stay whole; {} is near",
        plan.o_proj_tp, config.o_groups, nearest_divisor(config.o_groups, plan.o_proj_tp)));
  } else if (ranks % plan.o_proj_tp != 0) {
    found.push_back(fmt::format(
        "‹split of output projections› {}: does not divide the dp x {} = {} ranks of a stage; {} is near",
        plan.o_proj_tp, group_name(plan), ranks, nearest_divisor(ranks, plan.o_proj_tp)));
  }
  if (plan.o_proj_tp % plan.tp != 0 && plan.tp % plan.o_proj_tp != 0) {
    found.push_back(
        fmt::format("‹split of output projections› {}: neither a multiple of ‹tensor parallelism› {} nor a "
                    "part of it; {} is near",
                    plan.o_proj_tp, plan.tp, nearest_divisor(plan.tp, plan.o_proj_tp)));
  }
  if (ranks % plan.lmhead_tp != 0) {
    found.push_back(fmt::format(
        "‹split of the vocabulary› {}: does not divide the dp x {} = {} ranks of a stage; {} is near",
        plan.lmhead_tp, group_name(plan), ranks, nearest_divisor(ranks, plan.lmhead_tp)));
  }
  if (plan.pp > config.num_hidden_layers) {
    found.push_back(
        fmt::format("‹pipeline parallelism› {}: the model has {} layers, a stage has one at least", plan.pp,
                    config.num_hidden_layers));
  }
  if (!plan.stage_layers.empty()) find_stage_violations(plan, config, found);
  if (found.empty()) find_cut_violations(plan, config, found);
  if (plan.dual_batch_overlap && config.lags_mixing()) {
    found.push_back(fmt::format(
        "‹micro-batch overlap›: steps of {} are not cut in two so far, whose mixing goes from half-block to "
        "half-block; leave it out",
        config.family->name));
  }
  if (auto refused = transport_violation(plan)) found.push_back(std::move(*refused));
  return found;
}

void validate(const ParallelPlan& plan, const ModelConfig& config) {
  const std::vector<std::string> found = violations(plan, config);
  if (found.empty()) return;
  fail("this plan cannot be: {}", fmt::join(found, "; "));
}

std::string to_text(const ParallelPlan& plan) {
  std::string text = fmt::format("{} device{}: {}, dp {}, ep {}", plan.num_devices,
                                 plan.num_devices == 1 ? "" : "s", group_text(plan), plan.dp, plan.ep);
  const auto add = [&](std::string_view name, std::int64_t value, std::int64_t usual) {
    if (value != usual) text += fmt::format(", {} {}", name, value);
  };
  add("pp", plan.pp, 1);
  if (!plan.stage_layers.empty()) text += fmt::format(" of {} layers", fmt::join(plan.stage_layers, " + "));
  add("moe tp", plan.moe_tp, 1);
  add("o_proj tp", plan.o_proj_tp, plan.tp);
  add("lm_head tp", plan.lmhead_tp, plan.group_ranks());
  if (plan.prefill_groups > 0) {
    text += fmt::format(", {} group{} for prompts", plan.prefill_groups, plan.prefill_groups == 1 ? "" : "s");
  }
  add("redundant experts", plan.redundant_experts, 0);
  if (plan.expert_placement == ExpertOrder::kRoundRobin) text += ", experts round-robin";
  if (plan.maps_by_layer) text += ", an expert map for each layer";
  if (plan.sequence_parallel) text += ", sequence parallel";
  if (plan.expert_transport != ExpertTransport::kAutomatic)
    text += fmt::format(", experts by {}", traits_of(plan.expert_transport).name);
  if (plan.dual_batch_overlap) text += ", two micro-batches";
  return text;
}

}  // namespace baleen
