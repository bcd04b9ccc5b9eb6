#include "trainer/estimate/run_estimate.h"

#include <algorithm>
#include <numeric>

#include "simulator/cost/time_model.h"
#include "trainer/estimate/training_shares.h"
#include "trainer/graph/model.h"
#include "trainer/optimiser/parameter_groups.h"
#include "trainer/optimiser/tensor_homes.h"

namespace baleen {
namespace {

constexpr double kFloatBytes = 4;

class RunEstimator {
 public:
  RunEstimator(const TrainConfig& config, const PassOptions& options, const DeviceProfile& device,
               std::int64_t num_ranks)
      : config_(config), options_(options), times_(device, true), num_ranks_(num_ranks) {}

  RunStepEstimate estimate() {
    passes();
    sums();
    update();
    return std::move(estimate_);
  }

 private:
  [[nodiscard]] double seconds(std::string_view name, std::int64_t rows, const OpCost& cost) const {
    if (cost.total_flops() == 0 && cost.total_bytes() == 0) return 0;
    const std::string full_name = std::string(name) + std::string(options_.bf16_products ? kTrainBf16 : "");
    return times_.time_of({.name = full_name, .num_rows = static_cast<double>(rows), .cost = cost}).seconds;
  }

  void add(const std::string& name, double seconds, double flops) {
    const auto found = std::ranges::find(estimate_.parts, name, &RunPartEstimate::name);
    RunPartEstimate& part =
        found != estimate_.parts.end() ? *found : estimate_.parts.emplace_back(RunPartEstimate{.name = name});
    part.seconds += seconds;
    part.matrix_flops += flops;
  }

  /// Of this rank.
  [[nodiscard]] std::int64_t num_micro_batches() const {
    return (config_.num_micro_batches(num_ranks_) + num_ranks_ - 1) / num_ranks_;
  }

  void passes() {
    const std::vector<std::int64_t> lengths(static_cast<std::size_t>(config_.micro_batch_rows(num_ranks_)),
                                            config_.data.sequence_length);
    const auto count = static_cast<double>(num_micro_batches());
    double again = 0, again_flops = 0;
    for (const PassOperation& op : record_pass(config_.model, lengths, options_).operations) {
      const TrainingPartNames& names = training_part(op.part);
      const bool of_mtp = op.block >= config_.model.num_hidden_layers;
      const std::string part = of_mtp ? "MTP block" : std::string(names.part);
      const double forward = count * seconds(names.forward, op.num_rows, op.forward);
      const double flops = count * op.forward.matrix_flops();
      add(part + ", forward", forward, flops);
      add(part + ", backward", count * seconds(names.backward, op.num_rows, op.backward),
          count * op.backward.matrix_flops());
      if (op.block < 0 || of_mtp) continue;
      again += forward;
      again_flops += flops;
    }
    if (options_.recompute && !options_.indexers_alone)
      add("forward again for the backward", again, again_flops);
  }

  /// Each micro-batch's gradients are set to zero, then added to those of others.
  void sums() {
    OpCost cost;
    cost.write_bytes = kFloatBytes * num_parameters() * static_cast<double>(num_micro_batches());
    const double values = num_parameters() * static_cast<double>(num_micro_batches() - 1);
    cost.scalar_ops = values;
    cost.read_bytes = 2 * kFloatBytes * values;
    cost.write_bytes += kFloatBytes * values;
    add("sums of gradients", seconds("train_sums", 1, cost), 0);
    if (num_ranks_ == 1) return;
    const double bytes = kFloatBytes * num_parameters();
    add("messages between processes",
        times_.collective_seconds({MessageKind::kReduceScatter, num_ranks_, bytes}) +
            times_.collective_seconds(
                {MessageKind::kAllGather, num_ranks_, bytes / static_cast<double>(num_ranks_)}),
        0);
  }

  void update() {
    OpCost norms, muon, adamw;
    for (const TensorSpec& tensor : table_) {
      const ParameterGroup group = parameter_group(tensor, config_);
      const auto values = static_cast<double>(tensor.num_elements()) / static_cast<double>(num_ranks_);
      if (group.rule != UpdateRule::kMuon && group.rule != UpdateRule::kAdamW) continue;
      if (options_.indexers_alone && !group.is_indexer) continue;
      norms.scalar_ops += 3 * values;  // square, sum; scale
      norms.read_bytes += 2 * kFloatBytes * values;
      norms.write_bytes += kFloatBytes * values;
      const double flops = update_flops(tensor, group) / static_cast<double>(num_ranks_);
      OpCost& cost = group.rule == UpdateRule::kMuon ? muon : adamw;
      if (group.rule == UpdateRule::kMuon) {
        cost.add_flops(options_.bf16_products ? MathFormat::kBF16 : MathFormat::kF32, flops);
        cost.scalar_ops += 7 * values;  // momentum and its look-ahead (4), decay and step
        cost.read_bytes += 3 * kFloatBytes * values;
        cost.write_bytes += 2 * kFloatBytes * values;
      } else {
        cost.scalar_ops += flops;
        cost.read_bytes += 4 * kFloatBytes * values;
        cost.write_bytes += 3 * kFloatBytes * values;
      }
    }
    add("norm and clipping", seconds(kTrainNorms, 1, norms), 0);
    add("Muon", seconds(kTrainMuon, 1, muon), muon.matrix_flops());
    add("AdamW", seconds(kTrainAdamW, 1, adamw), 0);
  }

  [[nodiscard]] double num_parameters() const {
    return std::accumulate(table_.begin(), table_.end(), 0.0, [](double sum, const TensorSpec& spec) {
      return sum + (spec.storage == Storage::kI64 ? 0 : static_cast<double>(spec.num_elements()));
    });
  }

  const TrainConfig& config_;
  const PassOptions& options_;
  TimeModel times_;
  std::int64_t num_ranks_;
  std::vector<TensorSpec> table_ = training_table(config_.model, config_.ablation.plain_residual);
  RunStepEstimate estimate_;
};

}  // namespace

double RunStepEstimate::seconds() const {
  return std::accumulate(parts.begin(), parts.end(), 0.0,
                         [](double sum, const RunPartEstimate& part) { return sum + part.seconds; });
}

double RunStepEstimate::seconds_of(std::string_view part) const {
  const auto found = std::ranges::find(parts, part, &RunPartEstimate::name);
  return found == parts.end() ? 0 : found->seconds;
}

RunStepEstimate estimate_run_step(const TrainConfig& config, const PassOptions& options,
                                  const DeviceProfile& device, std::int64_t num_ranks) {
  return RunEstimator(config, options, device, num_ranks).estimate();
}

}  // namespace baleen
