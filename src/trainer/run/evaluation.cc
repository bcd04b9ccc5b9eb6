#include "trainer/run/evaluation.h"

#include <algorithm>
#include <numbers>

namespace baleen {

Evaluation evaluate(const LossFunction& loss, const Parameters<float>& weights, const PassOptions& options,
                    const BatchSampler& sampler, const TokenShards& shards, std::int64_t num_rows,
                    std::int64_t rows_at_once) {
  PassOptions without_mtp = options;
  without_mtp.mtp_weight = 0;
  const std::int64_t end = std::min(num_rows, sampler.num_rows());
  Evaluation result;
  double sum = 0;
  for (std::int64_t row = 0; row < end; row += rows_at_once) {
    const TrainingBatch batch = sampler.rows_in_order(row, std::min(end, row + rows_at_once));
    const LossReport report = loss(weights, batch, without_mtp, nullptr);
    sum += report.loss_sum;
    result.num_targets += report.num_targets;
  }
  if (result.num_targets == 0 || shards.num_text_bytes() == 0) return result;
  result.nats_per_token = sum / static_cast<double>(result.num_targets);
  const double bytes_per_target =
      static_cast<double>(shards.num_text_bytes()) / static_cast<double>(shards.num_targets());
  result.bits_per_byte = result.nats_per_token / std::numbers::ln2 / bytes_per_target;
  return result;
}

}  // namespace baleen
