#include "simulator/cost/step_estimate.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>

#include "device/make_device.h"
#include "device/profiled_device.h"
#include "moe/residence/expert_block.h"

namespace baleen {
namespace {

/// Of a call that a profile of this program's kernels says nothing of: what the variant is predicted to take
/// that such a device would choose.
std::optional<double> predicted_seconds(const DeviceProfile& device, const OperationSequence& sequence,
                                        const void* const* args) {
  if (device.operations.contains(sequence.name)) return std::nullopt;
  for (const VariantVerdict& verdict : variant_verdicts(traits_like(device), {}, sequence, args))
    if (verdict.outcome == VariantOutcome::kChosen) return verdict.predicted_seconds;
  return std::nullopt;
}

GraphOptions graph_options(const DeviceProfile& device, PerformanceModel performance) {
  GraphOptions options{.activations = device.is_cpu ? ElementType::kF32 : ElementType::kBf16,
                       .fuses = device.fuses};
  if (device.fuses && performance == PerformanceModel::kMeasured) {
    options.predict = [&device](const OperationSequence& sequence, const void* const* args) {
      return predicted_seconds(device, sequence, args);
    };
  }
  return options;
}

/// Each micro-batch runs its operations one after the other; the device computes for one of them at a time,
/// and its links carry messages of one at a time. Whoever can begin first does.
void schedule(StageEstimate& estimate, const OpGraph& graph, const TimeModel& times,
              std::int64_t micro_batches, HostCopies copies, const EngramReads& tables) {
  struct Chain {
    std::size_t next = 0;
    double free_at = 0;
  };
  std::vector<OpTime> op_times;
  for (const GraphOp& op : graph.ops) op_times.push_back(times.time_of(op));
  std::vector<Chain> chains(static_cast<std::size_t>(micro_batches));
  double device_free_at = 0, links_free_at = 0;
  estimate.ops.reserve(graph.ops.size() * chains.size());
  while (estimate.ops.size() < graph.ops.size() * chains.size()) {
    std::size_t first = 0;
    double earliest = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < chains.size(); ++i) {
      if (chains[i].next == graph.ops.size()) continue;
      const bool sends = graph.ops[chains[i].next].is_collective();
      const double start = std::max(chains[i].free_at, sends ? links_free_at : device_free_at);
      if (start < earliest) {
        earliest = start;
        first = i;
      }
    }
    Chain& chain = chains[first];
    const GraphOp& op = graph.ops[chain.next];
    OpTime time = op_times[chain.next++];
    copies.add_to(time, op, earliest);
    tables.add_to(time, op);
    chain.free_at = (op.is_collective() ? links_free_at : device_free_at) = earliest + time.seconds;
    (op.is_collective() ? estimate.communication_seconds : estimate.compute_seconds) += time.seconds;
    estimate.ops.push_back({op, time, earliest, static_cast<std::int64_t>(first)});
    estimate.seconds = std::max(estimate.seconds, chain.free_at);
  }
}

/// Bounds of `count` consecutive ranges of `weights` whose largest sum is as small as can be.
std::vector<std::int64_t> balanced_bounds(const std::vector<double>& weights, std::int64_t count) {
  const auto fits = [&](double most) {
    std::vector<std::int64_t> bounds{0};
    double sum = 0;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      const auto left = static_cast<std::int64_t>(weights.size() - i);
      const bool must_begin =
          left == count - std::ssize(bounds) && bounds.back() != static_cast<std::int64_t>(i);
      if (i > 0 && (sum + weights[i] > most || must_begin)) {
        bounds.push_back(static_cast<std::int64_t>(i));
        sum = 0;
      }
      sum += weights[i];
    }
    bounds.push_back(std::ssize(weights));
    return bounds;
  };
  double low = *std::ranges::max_element(weights),
         high = std::accumulate(weights.begin(), weights.end(), 0.0);
  constexpr int kHalvings = 40;
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = (low + high) / 2;
    (std::ssize(fits(middle)) <= count + 1 ? high : low) = middle;
  }
  return fits(high);
}

std::vector<Stage> split_into_stages(const PlanRanks& ranks, const RankBatch& batch, const Workload& workload,
                                     const DeviceProfile& device, PerformanceModel performance) {
  const RankModel& whole = ranks.whole();
  if (ranks.plan().pp == 1) return {whole.stage()};
  std::vector<Stage> stages;
  // Where layers share entries, few cuts can be.
  if (!ranks.plan().stage_layers.empty() || ranks.model().config.streams) {
    for (std::int64_t i = 0; i < ranks.plan().pp; ++i)
      stages.push_back(stage_of(ranks.model().config, ranks.plan(), i));
    return stages;
  }
  const std::int64_t num_layers = ranks.model().config.num_hidden_layers;
  std::vector<double> seconds(static_cast<std::size_t>(num_layers));
  for (const OpEstimate& op : estimate_stage(whole, batch, workload, device, {}, {}, performance).ops) {
    if (op.op.block >= 0 && op.op.block < num_layers)
      seconds[static_cast<std::size_t>(op.op.block)] += op.time.seconds;
  }
  const std::vector<std::int64_t> bounds = balanced_bounds(seconds, ranks.plan().pp);
  for (std::size_t i = 0; i + 1 < bounds.size(); ++i) {
    stages.push_back(
        {.begin = bounds[i], .end = bounds[i + 1], .first = i == 0, .last = i + 2 == bounds.size()});
  }
  return stages;
}

/// The part of a batch that one of `count` micro-batches has, the largest of them.
RankBatch part_of(const RankBatch& batch, std::int64_t count) {
  const std::int64_t queries = (std::ssize(batch) + count - 1) / count;
  return {batch.begin(), batch.begin() + queries};
}

}  // namespace

StageEstimate estimate_stage(const RankModel& model, const RankBatch& batch, const Workload& workload,
                             const DeviceProfile& device, const HostExperts& host, const EngramReads& tables,
                             PerformanceModel performance) {
  StageEstimate estimate{.stage = model.stage()};
  const TimeModel times(device, workload.decode);
  const std::int64_t micro_batches = model.plan().dual_batch_overlap && batch.size() > 1 ? 2 : 1;
  OpGraph graph =
      record_step(model, part_of(batch, micro_batches), workload, graph_options(device, performance));
  // The next micro-batch begins while streams are on their way to the next stage.
  std::erase_if(graph.ops, [&](const GraphOp& op) {
    const bool leaves = op.is_collective() && op.message.kind == MessageKind::kSend;
    if (leaves)
      estimate.send_seconds += static_cast<double>(micro_batches) * times.collective_seconds(op.message);
    return leaves;
  });
  schedule(estimate, graph, times, micro_batches,
           {host, model.config().model().num_experts_per_tok, static_cast<double>(graph.num_rows),
            workload.zipf, workload.guessed_experts},
           tables);
  return estimate;
}

HostExperts host_experts(const RankModel& model, const RankMemory& memory, const DeviceProfile& device) {
  if (memory.experts.num_away() == 0) return {};
  HostExperts experts{.counts = memory.experts,
                      .block_bytes = ExpertBlock(model.weights().blocks.front().moe.routed.front()).bytes(),
                      .level = device.memory_levels.front(),
                      .computes = device.computes_on_host};
  if (memory.experts.num_on_disk > 0) experts.disk = device.memory_levels.at(1);
  return experts;
}

StepEstimate estimate_step(const PlanRanks& ranks, const Workload& workload,
                           const DeviceProfile& given_device, PerformanceModel performance) {
  const ParallelPlan& plan = ranks.plan();
  DeviceProfile device = given_device;
  if (performance == PerformanceModel::kAnalytic) device.operations.clear();
  const RankBatch batch = rank_batch(workload, plan);
  const std::int64_t micro_batches = std::min(plan.pp, std::ssize(batch));
  const RankBatch part = part_of(batch, micro_batches);
  StepEstimate estimate{.device_memory_bytes = device.memory_bytes};
  double slowest = 0;
  for (const Stage& stage : split_into_stages(ranks, part, workload, device, performance)) {
    const RankModel& rank = ranks.of(stage);
    const RankMemory memory = rank_memory(rank, rank_load(batch, workload, ranks.model().engram), device);
    StageEstimate timed = estimate_stage(rank, part, workload, device, host_experts(rank, memory, device),
                                         EngramReads(ranks.model().config, memory, device), performance);
    timed.memory = memory;
    estimate.seconds += timed.seconds;
    estimate.send_seconds += timed.send_seconds;
    slowest = std::max(slowest, timed.seconds);
    estimate.memory_bytes = std::max(estimate.memory_bytes, timed.memory.total());
    estimate.stages.push_back(std::move(timed));
  }
  estimate.host_seconds = device.host_seconds_per_step;
  estimate.seconds =
      std::max(estimate.seconds + estimate.send_seconds, static_cast<double>(micro_batches) * slowest) +
      estimate.host_seconds;
  const auto groups = static_cast<double>(std::min(plan.dp, workload.num_queries));
  estimate.tokens = static_cast<double>(num_rows(batch)) * groups;
  estimate.tokens_out =
      static_cast<double>(workload.num_queries) * (workload.decode ? workload.tokens_per_step() : 1);
  return estimate;
}

}  // namespace baleen
