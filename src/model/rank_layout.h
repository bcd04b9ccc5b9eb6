/// One rank's place in a plan: which layers, heads, rows and experts are its own, and with whom it exchanges
/// what. Of one rank, the default, everything.
/// (source: parallel MoE 2, 8, 12)
///
/// Ranks are numbered (stage dp + dp_index) group_ranks + group_index, of which a group's tp or cp is the
/// number:
///
///     dp 2, tp 4, one stage          rank   0  1  2  3 │ 4  5  6  7
///     tp (heads, vocabulary)                └────────┘ │ └────────┘
///     o_proj_tp 2: heads of a group         └──┘ └──┘  │ └──┘ └──┘     gathered before wo_a
///                  sums of wo_b             0 ─── 2    │                and 1 ─── 3: added up
///     ep 4, moe_tp 2: experts               └──┘ └──┘    └──┘ └──┘     a quarter of the experts each
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "comm/rank_group.h"
#include "model/config.h"
#include "model/parallel_plan.h"
#include "model/rank_config.h"
#include "model/tensor_split.h"
#include "ops/collectives/collective.h"
#include "ops/dispatch/expert_exchange.h"

namespace baleen {

/// Rows [0, num_rows) cut into `parts` of equal size, but for the last ones, which may be shorter or empty.
[[nodiscard]] std::vector<RowRange> even_rows(std::int64_t num_rows, std::int64_t parts);

class RankLayout {
 public:
  /// One rank.
  RankLayout();
  /// `plan` resolved and legal for `config`, the whole model's; `stage_index` of the plan's, `stage_rank`
  /// within it.
  RankLayout(const ModelConfig& config, const ParallelPlan& plan, const Stage& stage,
             std::int64_t stage_index = 0, std::int64_t stage_rank = 0);

  [[nodiscard]] const ParallelPlan& plan() const { return plan_; }
  [[nodiscard]] const Stage& stage() const { return stage_; }
  [[nodiscard]] std::int64_t rank() const { return group_.rank(); }
  [[nodiscard]] std::int64_t dp_index() const { return stage_ranks_.place / plan_.group_ranks(); }
  [[nodiscard]] std::int64_t group_index() const { return group_.place; }
  /// Which part of the heads is this rank's.
  [[nodiscard]] std::int64_t tp_index() const { return group_.place % plan_.tp; }
  /// Groups of heads of this rank's output projection.
  [[nodiscard]] std::int64_t output_groups() const { return num_output_groups_ / plan_.o_proj_tp; }
  /// The first of them.
  [[nodiscard]] std::int64_t first_output_group() const;
  /// Data-parallel groups whose rows meet in the output projection of one group of ranks.
  [[nodiscard]] std::int64_t output_row_groups() const { return output_rows_.size(); }

  /// Ranks of the data-parallel group: with the same batch.
  [[nodiscard]] const RankGroup& group() const { return group_; }
  [[nodiscard]] const RankGroup& stage_ranks() const { return stage_ranks_; }
  /// Ranks that gather each other's heads, until each has whole groups of them.
  [[nodiscard]] const RankGroup& output_heads() const { return output_heads_; }
  /// Ranks that exchange rows for groups of heads: with more ranks than heads are split over.
  [[nodiscard]] const RankGroup& output_rows() const { return output_rows_; }
  /// Ranks whose partial outputs are added up.
  [[nodiscard]] const RankGroup& output_sums() const { return output_sums_; }
  [[nodiscard]] const RankGroup& vocabulary() const { return vocabulary_; }
  /// The rank that this one gets streams from, or sends them to, and itself.
  [[nodiscard]] const RankGroup& previous_stage() const { return previous_stage_; }
  [[nodiscard]] const RankGroup& next_stage() const { return next_stage_; }
  /// Where the experts of a block lie that has `num_experts` of them, under this map; `map` outlives what is
  /// returned, null: linearly.
  [[nodiscard]] ExpertRanks experts(std::int64_t num_experts, const ExpertMap* map,
                                    const std::int32_t* table = nullptr) const {
    return {.stage = &stage_ranks_, .ep = plan_.ep, .num_experts = num_experts, .map = map, .table = table};
  }
  /// Where the plan places the experts of such a block, a layer or one of the draft head; null: linearly.
  [[nodiscard]] std::shared_ptr<const ExpertMap> placed_map(std::int64_t num_experts) const;

  /// Which of the parts of a tensor that is divided so is this rank's.
  [[nodiscard]] std::int64_t part_of(TensorSplit split) const;

  /// How rows get to the experts of other ranks.
  [[nodiscard]] const ExpertTransportTraits& expert_transport() const { return *expert_transport_; }
  /// Rows that a dispatch brings at most, where a data-parallel group's batch has up to `max_rows`.
  [[nodiscard]] std::int64_t most_arriving_rows(std::int64_t max_rows, std::int64_t experts_per_token) const;
  /// Of `num_rows` rows of the group's batch, those that each of its ranks has between attention and
  /// attention.
  [[nodiscard]] std::vector<RowRange> kept_rows(std::int64_t num_rows) const;
  [[nodiscard]] RowRange kept(std::int64_t num_rows) const {
    return kept_rows(num_rows)[static_cast<std::size_t>(group_index())];
  }
  /// Of the same rows those whose queries this rank attends with: with context parallelism the ones it keeps,
  /// otherwise all.
  [[nodiscard]] RowRange attending(std::int64_t num_rows) const {
    return plan_.cp > 1 ? kept(num_rows) : RowRange{0, num_rows};
  }
  /// Of the rows that an output projection has at hand, those that each rank of `output_sums` gets.
  [[nodiscard]] std::vector<RowRange> output_shares(std::int64_t num_rows) const;

 private:
  ParallelPlan plan_;
  const ExpertTransportTraits* expert_transport_;
  Stage stage_;
  std::vector<std::shared_ptr<const ExpertMap>> placed_maps_;  ///< one for each number of experts
  std::int64_t num_output_groups_ = 1;
  RankGroup group_, stage_ranks_, output_heads_, output_rows_, output_sums_, vocabulary_;
  RankGroup previous_stage_, next_stage_;
};

/// Throws `Error` with the reason where real ranks cannot run what the simulator can think of.
void check_runnable(const ParallelPlan& plan, const ModelConfig& config);

}  // namespace baleen
