/// How a model is spread over devices, and which spreads can be.       (source: simulation 5; parallel MoE
/// 12)
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/config.h"
#include "model/expert_transport.h"
#include "ops/dispatch/expert_map.h"

namespace baleen {

/// Of anything in a plan, at most.
inline constexpr std::int64_t kMaxRanks = 1 << 16;

/// num_devices = pp dp cp tp, and cp or tp is 1. Attention: dp groups of requests, each group's heads over tp
/// ranks or its rows over cp ranks; KV is the same on all of them. Experts: over ep ranks of the dp cp tp of
/// a stage, and each expert's inner width over the moe_tp that remain. Output projection: its groups over
/// o_proj_tp ranks. Zero: not said, see `resolved`.
struct ParallelPlan {
  std::int64_t num_devices = 0;
  std::int64_t tp = 0;
  std::int64_t cp = 0;  ///< ranks with whole attention weights that share out the rows of a step
  std::int64_t dp = 0;
  std::int64_t ep = 0;
  std::int64_t pp = 0;
  /// Layers of each of the pp stages, for devices that are not alike; empty: as even as can be.
  std::vector<std::int64_t> stage_layers;
  std::int64_t moe_tp = 0;
  std::int64_t o_proj_tp = 0;
  std::int64_t lmhead_tp = 0;
  /// Ranks of a tp group over which the shared expert's inner width is split where they have the same tokens:
  /// 1: the first has it whole; 0: all.
  std::int64_t shared_tp = 0;
  /// Data-parallel groups, the first ones, that only compute prompts; the others decode. 0: all do both.
  std::int64_t prefill_groups = 0;
  std::int64_t redundant_experts = 0;                   ///< copies beyond one of each, in every layer
  ExpertOrder expert_placement = ExpertOrder::kLinear;  ///< where the first copy of each expert lies
  /// Each layer has an expert map of its own: from a file, or because maps change while the ranks serve.
  bool maps_by_layer = false;
  bool sequence_parallel =
      false;  ///< between attention and attention, ranks of a tp group share out the tokens
  bool dual_batch_overlap = false;  ///< two micro-batches, one computing while the other communicates
  /// How rows get to experts on other ranks; otherwise as `expert_transport` chooses.
  ExpertTransport expert_transport = ExpertTransport::kAutomatic;

  /// Nothing is split, or nothing said.
  [[nodiscard]] bool is_one_rank() const {
    return num_devices <= 1 && tp <= 1 && cp <= 1 && dp <= 1 && ep <= 1 && pp <= 1 && moe_tp <= 1 &&
           o_proj_tp <= 1 && lmhead_tp <= 1 && prefill_groups == 0 && places_linearly() &&
           !sequence_parallel && !dual_batch_overlap;
  }
  /// Ranks of a data-parallel group: they have the same batch.
  [[nodiscard]] std::int64_t group_ranks() const { return tp * cp; }
  /// Ranks of one pipeline stage.
  [[nodiscard]] std::int64_t stage_ranks() const { return dp * group_ranks(); }
  /// Between attention and attention the ranks of a group have rows of their own.
  [[nodiscard]] bool shares_rows() const { return sequence_parallel || cp > 1; }
  /// Experts lie linearly, one copy of each, in every layer and for good.
  [[nodiscard]] bool places_linearly() const {
    return !maps_by_layer && redundant_experts == 0 && expert_placement == ExpertOrder::kLinear;
  }
  bool operator==(const ParallelPlan&) const = default;
};

/// Fills the zeros: pp, tp and cp 1, dp what devices are left (what ep needs where there is no number of
/// them), ep all ranks of a stage (what moe_tp leaves), o_proj_tp tp as far as groups go, lmhead_tp tp cp.
[[nodiscard]] ParallelPlan resolved(ParallelPlan plan, const ModelConfig& config);

/// `plan` as ranks on GPUs take it, before it is `resolved`: the shared expert is whole, on the first rank,
/// unless the plan says otherwise or splits routed experts by their inner width. Parts were measured
/// to take a third longer for prompts.
[[nodiscard]] ParallelPlan with_experts_of_gpus(ParallelPlan plan);

/// A sentence for every rule that a resolved plan breaks, with the nearest legal value; none: the plan can
/// be.
[[nodiscard]] std::vector<std::string> violations(const ParallelPlan& plan, const ModelConfig& config);

/// Throws `Error` with all of them, if any.
void validate(const ParallelPlan& plan, const ModelConfig& config);

/// "8 devices: tp 4, dp 2, ep 8"
[[nodiscard]] std::string to_text(const ParallelPlan& plan);

}  // namespace baleen
