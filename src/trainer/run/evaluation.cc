#include "trainer/run/evaluation.h"

#include <algorithm>
#include <numbers>

namespace baleen {

Evaluation evaluate(const TrainingRanks& ranks, MicroBatches& micro_batches, const Parameters<float>& weights,
                    const PassOptions& options, const BatchSampler& sampler, const TokenShards& shards,
                    std::int64_t num_rows, std::int64_t rows_at_once) {
  const PassOptions main_loss = main_loss_only(options);
  const std::int64_t end = std::min(num_rows, sampler.num_rows());
  const std::int64_t num_parts = (end + rows_at_once - 1) / rows_at_once;
  std::vector<double> sums(static_cast<std::size_t>(2 * num_parts));  // of each pass: loss, targets
  micro_batches.run({.weights = weights,
                     .options = main_loss,
                     .parts = ranks.share_of(num_parts),
                     .take =
                         [&](std::int64_t part) {
                           return sampler.rows_in_order(part * rows_at_once,
                                                        std::min(end, (part + 1) * rows_at_once));
                         },
                     .done =
                         [&](std::int64_t part, const TrainingBatch&, const LossReport& report) {
                           const auto at = static_cast<std::size_t>(2 * part);
                           sums[at] = report.loss_sum;
                           sums[at + 1] = static_cast<double>(report.num_targets);
                         }});
  ranks.gather(num_parts, sums);
  Evaluation result;
  double sum = 0;
  for (std::size_t at = 0; at < sums.size(); at += 2) {
    sum += sums[at];
    result.num_targets += static_cast<std::int64_t>(sums[at + 1]);
  }
  if (result.num_targets == 0 || shards.num_text_bytes() == 0) return result;
  result.nats_per_token = sum / static_cast<double>(result.num_targets);
  const double bytes_per_target =
      static_cast<double>(shards.num_text_bytes()) / static_cast<double>(shards.num_targets());
  result.bits_per_byte = result.nats_per_token / std::numbers::ln2 / bytes_per_target;
  return result;
}

}  // namespace baleen
