#include "simulator/search/nearest_fit.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <vector>

#include "simulator/search/plan_search.h"

namespace baleen {
namespace {

/// The largest of [low, high] for which `fits` holds, if it does for `low`; what holds for a number holds for
/// smaller ones.
std::optional<std::int64_t> largest(std::int64_t low, std::int64_t high,
                                    const std::function<bool(std::int64_t)>& fits) {
  if (low > high || !fits(low)) return std::nullopt;
  while (low < high) {
    const std::int64_t middle = low + (high - low + 1) / 2;
    if (fits(middle)) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

/// Whether stages like these hold `workload`.
bool fits(const PlanRanks& ranks, const std::vector<Stage>& stages, const Workload& workload,
          const DeviceProfile& device) {
  const RankLoad load = rank_load(rank_batch(workload, ranks.plan()), workload, ranks.model().engram);
  return std::ranges::all_of(stages, [&](const Stage& stage) {
    return rank_memory(ranks.of(stage), load, device).total() <= device.memory_bytes;
  });
}

std::vector<Stage> stages_of(const ModelConfig& config, const ParallelPlan& plan) {
  std::vector<Stage> stages;
  for (std::int64_t s = 0; s < plan.pp; ++s) stages.push_back(stage_of(config, plan, s));
  return stages;
}

/// The quickest plan of so many devices that fits.
std::optional<ParallelPlan> plan_that_fits(const SimulatedModel& model, std::int64_t num_devices,
                                           const Workload& workload, const DeviceProfile& device) {
  std::map<std::string, std::int64_t> excluded;
  std::multimap<double, ParallelPlan> by_time;
  for (const ParallelPlan& plan : legal_plans(model.config, num_devices, excluded)) {
    const PlanRanks ranks(model, plan);
    if (!fits(ranks, stages_of(model.config, plan), workload, device)) continue;
    // Plans compare about the same with a part of a very large workload.
    constexpr std::int64_t kTypicalQueries = 64;
    Workload typical = workload;
    typical.num_queries = std::min(workload.num_queries, plan.dp * kTypicalQueries);
    by_time.emplace(estimate_step(ranks, typical, device).seconds, plan);
  }
  for (const auto& [seconds, plan] : by_time) {
    if (estimate_step({model, plan}, workload, device).fits()) return plan;
  }
  return std::nullopt;
}

}  // namespace

NearestFit nearest_fit(const SimulatedModel& model, const ParallelPlan& plan, const Workload& workload,
                       const DeviceProfile& device, const StepEstimate& estimate, std::int64_t max_devices) {
  NearestFit nearest{.missing_bytes = estimate.memory_bytes - estimate.device_memory_bytes};
  const PlanRanks ranks(model, plan);
  std::vector<Stage> stages;
  for (const StageEstimate& stage : estimate.stages) stages.push_back(stage.stage);
  nearest.num_queries = largest(1, workload.num_queries - 1, [&](std::int64_t count) {
    Workload fewer = workload;
    fewer.num_queries = count;
    return fits(ranks, stages, fewer, device);
  });
  nearest.context_length = largest(0, workload.context_length - 1, [&](std::int64_t length) {
    Workload shorter = workload;
    shorter.context_length = length;
    return fits(ranks, stages, shorter, device);
  });
  if (!workload.decode) {
    nearest.query_length = largest(1, workload.query_length - 1, [&](std::int64_t length) {
      Workload shorter = workload;
      shorter.query_length = length;
      return fits(ranks, stages, shorter, device);
    });
  }
  for (std::int64_t count = plan.num_devices; count <= max_devices && !nearest.plan; count *= 2)
    nearest.plan = plan_that_fits(model, count, workload, device);
  return nearest;
}

std::string to_text(const NearestFit& fit, const Workload& workload) {
  std::string text = fmt::format("this does not fit: {:.3f} GB are missing on a device",
                                 1e-9 * static_cast<double>(fit.missing_bytes));
  std::vector<std::string> ways;
  if (fit.plan) ways.push_back(fmt::format("{} would do", to_text(*fit.plan)));
  if (fit.num_queries)
    ways.push_back(
        fmt::format("this plan holds {} of the {} queries", *fit.num_queries, workload.num_queries));
  if (fit.context_length)
    ways.push_back(fmt::format("with all queries, {} positions of context instead of {}", *fit.context_length,
                               workload.context_length));
  if (fit.query_length)
    ways.push_back(fmt::format("with all queries, chunks of {} tokens instead of {}", *fit.query_length,
                               workload.query_length));
  if (ways.empty()) return text + "; neither another plan, fewer queries nor a shorter context would help";
  return fmt::format("{}; {}", text, fmt::join(ways, "; "));
}

}  // namespace baleen
