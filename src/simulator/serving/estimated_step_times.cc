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
  if (!drafts) return;
  const auto ops_with = [&](std::int64_t num_drafts) {
    return estimate_stage(*stages_.back(), RankBatch(1), workload(true, num_drafts), device_).ops.size();
  };
  ops_of_later_link_ = ops_with(2) - ops_with(1);
}

Workload EstimatedStepTimes::workload(bool decodes, std::int64_t num_drafts) const {
  return {.decode = decodes,
          .num_drafts = num_drafts,
          .imbalance = imbalance_,
          .hash_imbalance = hash_imbalance_};
}

double EstimatedStepTimes::seconds(const RankBatch& batch, bool decodes) const {
  double sum = 0;
  for (const auto& stage : stages_) {
    const StageEstimate estimate = estimate_stage(*stage, batch, workload(decodes, 0), device_);
    sum += estimate.seconds + estimate.send_seconds;
  }
  return sum;
}

EstimatedStepTimes::DraftingStep EstimatedStepTimes::drafting_step(const RankBatch& batch) const {
  DraftingStep step;
  for (const auto& stage : stages_) {
    const StageEstimate estimate = estimate_stage(*stage, batch, workload(true, 2), device_);
    step.seconds += estimate.seconds + estimate.send_seconds;
    if (stage != stages_.back()) continue;
    for (std::size_t i = 0; i < estimate.ops.size(); ++i) {
      const double op_seconds = estimate.ops[i].time.seconds;
      const GraphPart part = estimate.ops[i].op.part;
      if (part == GraphPart::kFollow) step.follow_seconds += op_seconds;
      if (part != GraphPart::kDraft) continue;
      const bool is_later = i + ops_of_later_link_ >= estimate.ops.size();
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
