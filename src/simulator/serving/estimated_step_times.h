/// Step times of a deployment from the graph of its operations (simulator/cost).
///
/// One data-parallel group is served; the others are taken to have steps like its own at the same time, as
/// the graph's messages between them are. A step in which everybody decodes runs from a captured graph, any
/// other does not.
#pragma once

#include <memory>
#include <vector>

#include "simulator/cost/step_estimate.h"
#include "simulator/serving/step_times.h"

namespace baleen {

class EstimatedStepTimes final : public StepTimes {
 public:
  /// `plan` resolved and legal. `drafts`: the draft head follows every step, as it does in an engine that
  /// drafts. The imbalances as in Workload.
  EstimatedStepTimes(const SimulatedModel& model, const ParallelPlan& plan, const DeviceProfile& device,
                     bool drafts, double imbalance, double hash_imbalance);

  [[nodiscard]] double step_seconds(std::span<const QueryPart> parts) override;
  [[nodiscard]] double draft_seconds(std::span<const QueryPart> chains, std::int64_t depth) override;

 private:
  /// A step with two drafts of each sequence behind it, all as if in a captured graph.
  struct DraftingStep {
    double seconds = 0;         ///< what the step takes in all
    double follow_seconds = 0;  ///< what the draft head takes over the step's rows
    double first_link_seconds = 0, later_link_seconds = 0;
  };

  [[nodiscard]] Workload workload(bool decodes, std::int64_t num_drafts) const;
  [[nodiscard]] StageEstimate estimate(std::size_t stage, const RankBatch& batch,
                                       const Workload& workload) const;
  /// One stage after the other and what they send.
  [[nodiscard]] double seconds(const RankBatch& batch, bool decodes) const;
  [[nodiscard]] DraftingStep drafting_step(const RankBatch& batch) const;

  DeviceProfile device_;
  bool drafts_;
  double imbalance_, hash_imbalance_;
  std::vector<std::unique_ptr<RankModel>> stages_;
  std::vector<EngramReads> tables_;    ///< each stage has one
  std::size_t ops_of_later_link_ = 0;  ///< the last ones of a step with two drafts
};

}  // namespace baleen
