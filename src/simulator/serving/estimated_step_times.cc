#include "simulator/serving/estimated_step_times.h"

#include <algorithm>

#include "simulator/serving/deployed_server.h"

namespace baleen {

EstimatedStepTimes::EstimatedStepTimes(const SimulatedModel& model, const ParallelPlan& plan,
                                       const DeviceProfile& device, bool drafts, double imbalance,
                                       double hash_imbalance)
    : plan_(plan),
      device_(device),
      bytes_between_stages_(2 * model.config.hc_dim()),
      drafts_(drafts),
      workload_{.imbalance = imbalance, .hash_imbalance = hash_imbalance},
      stages_(stage_models(model, plan)) {}

double EstimatedStepTimes::seconds(const RankBatch& batch, std::int64_t num_drafts, bool decodes) const {
  Workload workload = workload_;
  workload.decode = decodes;
  workload.num_mtp_tokens = num_drafts;
  double sum = 0;
  for (const auto& stage : stages_) sum += estimate_stage(*stage, batch, workload, device_).seconds;
  if (plan_.pp == 1) return sum;
  const Collective send{CollectiveKind::kSend, plan_.num_devices,
                        static_cast<double>(bytes_between_stages_ * num_rows(batch))};
  return sum + static_cast<double>(plan_.pp - 1) * TimeModel(device_, decodes).collective_seconds(send);
}

double EstimatedStepTimes::step_seconds(std::span<const QueryPart> parts) {
  const RankBatch batch(parts.begin(), parts.end());
  const bool decodes =
      std::ranges::all_of(batch, [](const QueryPart& part) { return part.num_tokens == part.num_logits; });
  double sum = device_.host_seconds_per_step + seconds(batch, 0, decodes);
  // The estimate of one draft is the MTP block over the step's rows and one link; of two, another link.
  if (drafts_) sum += 2 * seconds(batch, 1, true) - seconds(batch, 0, true) - seconds(batch, 2, true);
  return sum;
}

double EstimatedStepTimes::draft_seconds(std::span<const QueryPart> chains) {
  const RankBatch batch(chains.begin(), chains.end());
  return seconds(batch, 2, true) - seconds(batch, 1, true);
}

}  // namespace baleen
