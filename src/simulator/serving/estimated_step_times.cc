#include "simulator/serving/estimated_step_times.h"

#include <algorithm>

#include "simulator/serving/deployed_server.h"

namespace baleen {

EstimatedStepTimes::EstimatedStepTimes(const SimulatedModel& model, const ParallelPlan& plan,
                                       const DeviceProfile& device, bool drafts, double imbalance,
                                       double hash_imbalance)
    : device_(device),
      drafts_(drafts),
      imbalance_(imbalance),
      hash_imbalance_(hash_imbalance),
      stages_(stage_models(model, plan)) {
  for (const auto& stage : stages_) {
    tables_.emplace_back(
        model.config, rank_memory(*stage, {.engram = model.engram, .keeps_experts = true}, device_), device_);
  }
  if (!drafts) return;
  const auto ops_with = [&](std::int64_t num_drafts) {
    return estimate(stages_.size() - 1, RankBatch(1), workload(true, num_drafts)).ops.size();
  };
  ops_of_later_link_ = ops_with(2) - ops_with(1);
}

Workload EstimatedStepTimes::workload(bool decodes, std::int64_t num_drafts) const {
  return {.decode = decodes,
          .num_drafts = num_drafts,
          .imbalance = imbalance_,
          .hash_imbalance = hash_imbalance_};
}

StageEstimate EstimatedStepTimes::estimate(std::size_t stage, const RankBatch& batch,
                                           const Workload& workload) const {
  return estimate_stage(*stages_[stage], batch, workload, device_, {}, tables_[stage]);
}

double EstimatedStepTimes::seconds(const RankBatch& batch, bool decodes) const {
  double sum = 0;
  for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
    const StageEstimate timed = estimate(stage, batch, workload(decodes, 0));
    sum += timed.seconds + timed.send_seconds;
  }
  return sum;
}

EstimatedStepTimes::DraftingStep EstimatedStepTimes::drafting_step(const RankBatch& batch) const {
  DraftingStep step;
  for (std::size_t stage = 0; stage < stages_.size(); ++stage) {
    const StageEstimate timed = estimate(stage, batch, workload(true, 2));
    step.seconds += timed.seconds + timed.send_seconds;
    if (stage + 1 < stages_.size()) continue;
    for (std::size_t i = 0; i < timed.ops.size(); ++i) {
      const double op_seconds = timed.ops[i].time.seconds;
      const GraphPart part = timed.ops[i].op.part;
      if (part == GraphPart::kFollow) step.follow_seconds += op_seconds;
      if (part != GraphPart::kDraft) continue;
      const bool is_later = i + ops_of_later_link_ >= timed.ops.size();
      (is_later ? step.later_link_seconds : step.first_link_seconds) += op_seconds;
    }
  }
  return step;
}

double EstimatedStepTimes::step_seconds(std::span<const QueryPart> parts) {
  const RankBatch batch(parts.begin(), parts.end());
  const bool decodes =
      std::ranges::all_of(batch, [](const QueryPart& part) { return part.num_tokens == part.num_logits; });
  const double host = device_.host_seconds_per_step;
  if (!drafts_) return host + seconds(batch, decodes);
  const DraftingStep step = drafting_step(batch);
  // Where messages run beside operations, the links' parts may add up to more than the step.
  const double links = step.first_link_seconds + step.later_link_seconds;
  return host + (decodes ? std::max(0.0, step.seconds - links) : seconds(batch, false) + step.follow_seconds);
}

double EstimatedStepTimes::draft_seconds(std::span<const QueryPart> chains, std::int64_t depth) {
  const DraftingStep step = drafting_step({chains.begin(), chains.end()});
  return depth == 0 ? step.first_link_seconds : step.later_link_seconds;
}

}  // namespace baleen
