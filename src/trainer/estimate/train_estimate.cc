#include "trainer/estimate/train_estimate.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "trainer/estimate/muon_cost.h"

namespace baleen {
namespace {

constexpr std::int64_t kMasterBytes = 4, kMomentumBytes = 4, kAdamBytes = 8, kComputeBytes = 2;
/// AdamW and the last step of Muon read and write master, states and gradient once.
constexpr double kUpdateBytes = 24;

void check(const TrainingLoad& load, const ParallelPlan& plan, const ModelConfig& config) {
  if (load.sequence_length < 1 || load.sequence_length > config.max_position_embeddings) {
    fail("‹sequence length› {}: 1 to {} are possible", load.sequence_length, config.max_position_embeddings);
  }
  if (plan.cp > 1)
    fail("‹context parallelism› {}: a training step shares out no rows of its sequences so far; leave it out",
         plan.cp);
  if (load.micro_batch_sequences < 1)
    fail("‹micro-batch› {}: at least 1 is possible", load.micro_batch_sequences);
  if (!(load.recomputation >= 0 && load.recomputation <= 1))
    fail("‹recomputation› {}: a share in 0 to 1", load.recomputation);
  const std::int64_t least = load.sequence_length * load.micro_batch_sequences * plan.dp;
  if (load.global_batch_tokens < least) {
    fail("‹batch tokens› {}: {} groups of {} sequences of {} tokens are {} already", load.global_batch_tokens,
         plan.dp, load.micro_batch_sequences, load.sequence_length, least);
  }
}

double sum_seconds(const std::vector<OpEstimate>& ops) {
  return std::accumulate(ops.begin(), ops.end(), 0.0,
                         [](double sum, const OpEstimate& op) { return sum + op.time.seconds; });
}

double sum_backward_seconds(const std::vector<OpEstimate>& ops, const TimeModel& times) {
  return std::accumulate(ops.begin(), ops.end(), 0.0, [&](double sum, const OpEstimate& op) {
    return sum + times.backward_time_of(op.op).seconds;
  });
}

/// Of forward and backward.
double matrix_flops(const std::vector<OpEstimate>& ops) {
  return std::accumulate(ops.begin(), ops.end(), 0.0, [](double sum, const OpEstimate& op) {
    return sum + op.op.cost.matrix_flops() + op.op.backward.matrix_flops();
  });
}

/// Parameters that one rank holds: of experts its slots and part of their width, of dense ones a stage's,
/// which its tp ranks split and its dp groups repeat.
struct RankParameters {
  double expert = 0;
  double dense = 0;
};

RankParameters rank_parameters(const ModelOptimiserCost& cost, const ParallelPlan& plan) {
  const auto stages = static_cast<double>(plan.pp);
  return {
      static_cast<double>(cost.experts.muon_parameters) / stages / static_cast<double>(plan.ep * plan.moe_tp),
      static_cast<double>(cost.dense.muon_parameters + cost.dense.adamw_parameters) / stages};
}

}  // namespace

double TrainEstimate::model_flops_utilisation(const DeviceProfile& device, std::int64_t num_devices) const {
  return model_flops / seconds / (device.peak(PeakFormat::kBf16) * static_cast<double>(num_devices));
}

TrainEstimate estimate_training(const SimulatedModel& model, const ParallelPlan& plan,
                                const TrainingLoad& load, const DeviceProfile& device) {
  check(load, plan, model.config);
  const std::int64_t micro_tokens = load.sequence_length * load.micro_batch_sequences;
  TrainEstimate estimate{.device_memory_bytes = device.memory_bytes};
  estimate.num_micro_batches = load.global_batch_tokens / (micro_tokens * plan.dp);
  const auto micro_batches = static_cast<double>(estimate.num_micro_batches);

  // Forward of a micro-batch, logits of every token and the MTP block included.
  const Workload work{.num_queries = load.micro_batch_sequences * plan.dp,
                      .query_length = load.sequence_length,
                      .trains = true,
                      .imbalance = load.imbalance,
                      .hash_imbalance = load.imbalance};
  ParallelPlan stage_plan = plan;
  stage_plan.pp = 1;  // one micro-batch through all stages, one after the other
  stage_plan.num_devices = plan.stage_ranks();
  const PlanRanks plan_ranks(model, stage_plan);
  const StepEstimate step = estimate_step(plan_ranks, work, device);
  const std::vector<OpEstimate>& ops = step.stages.front().ops;
  const TimeModel times(device, false);
  const auto stages = static_cast<double>(plan.pp);
  estimate.forward_seconds = sum_seconds(ops) * micro_batches / stages;
  estimate.backward_seconds = sum_backward_seconds(ops, times) * micro_batches / stages;
  estimate.recompute_seconds = load.recomputation * estimate.forward_seconds;
  const double busy = estimate.forward_seconds + estimate.backward_seconds + estimate.recompute_seconds;
  estimate.bubble_seconds = busy * (stages - 1) / micro_batches;
  estimate.model_flops = matrix_flops(ops) * micro_batches * static_cast<double>(plan.stage_ranks());

  const ModelOptimiserCost optimiser = optimiser_cost(model.config);
  const RankParameters held = rank_parameters(optimiser, plan);
  const auto ranks = static_cast<double>(plan.stage_ranks());
  const double gradient_bytes = load.bf16_gradients ? 2 : 4;
  const double share = held.dense / ranks;  // of dense parameters, that a rank updates
  estimate.gradient_seconds =
      times.collective_seconds({MessageKind::kReduceScatter, plan.dp,
                                held.dense / static_cast<double>(plan.tp) * gradient_bytes}) +
      times.collective_seconds({MessageKind::kAllGather, plan.dp, share * kComputeBytes});

  GraphOp newton_schulz{.name = "newton_schulz", .num_rows = static_cast<double>(model.config.hidden_size)};
  const double muon = optimiser.experts.muon_flops / static_cast<double>(plan.ep * plan.moe_tp) +
                      optimiser.dense.muon_flops / ranks;
  newton_schulz.cost.add_flops(MathFormat::kBF16, muon / stages);
  newton_schulz.cost.read_bytes = kUpdateBytes * (held.expert + share);
  estimate.optimiser_seconds = times.time_of(newton_schulz).seconds;
  // Instances of the same experts would repeat their update; within an instance there is one.
  estimate.muon_flops = optimiser.experts.muon_flops + optimiser.dense.muon_flops;

  estimate.seconds = busy + estimate.bubble_seconds + estimate.gradient_seconds + estimate.optimiser_seconds;
  estimate.tokens_per_second =
      static_cast<double>(micro_tokens * plan.dp * estimate.num_micro_batches) / estimate.seconds;

  // Streams at every layer's entry are kept for backward; with less recomputation, also the layer's own
  // activations.
  const RankMemory forward_memory =
      rank_memory(plan_ranks.whole(), rank_load(rank_batch(work, stage_plan), work), device);
  const double layers = static_cast<double>(model.config.num_blocks()) / stages;
  const double in_flight =
      std::min(stages, micro_batches);  // micro-batches that a stage holds between both passes
  const double entries = 2.0 * static_cast<double>(model.config.hc_dim() * micro_tokens) * layers * in_flight;
  const double inner =
      (1 - load.recomputation) * static_cast<double>(forward_memory.activations) * layers * in_flight;
  const auto bytes = [](double count) { return static_cast<std::int64_t>(count); };
  const auto adamw_share =
      static_cast<double>(optimiser.dense.adamw_parameters) /
      static_cast<double>(optimiser.dense.muon_parameters + optimiser.dense.adamw_parameters);
  estimate.memory = {
      {"weights", bytes(kComputeBytes * (held.expert + held.dense / static_cast<double>(plan.tp)))},
      {"gradients", bytes(gradient_bytes * (held.expert + held.dense / static_cast<double>(plan.tp)))},
      {"master weights", bytes(kMasterBytes * (held.expert + share))},
      {"optimiser states", bytes(kMomentumBytes * held.expert +
                                 share * (kMomentumBytes * (1 - adamw_share) + kAdamBytes * adamw_share))},
      {"kept activations", bytes(entries + inner)},
      {"activations in work", forward_memory.activations + forward_memory.scratch},
      {"logits", forward_memory.logits},
      {"messages", forward_memory.communication},
      {"reserved", forward_memory.reserved}};
  for (const auto& [name, size] : estimate.memory) estimate.memory_bytes += size;
  return estimate;
}

}  // namespace baleen
