#include "simulator/search/nearest_fit.h"

#include <fmt/format.h>

#include <functional>

#include "simulator/search/plan_search.h"

namespace baleen {
namespace {

/// The largest of [low, high] for which `fits` holds, if it does for `low`; what holds for a number holds for smaller ones.
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

}  // namespace

NearestFit nearest_fit(const SimulatedModel& model, const ParallelPlan& plan, const Workload& workload,
                       const DeviceProfile& device, const StepEstimate& estimate, std::int64_t max_devices) {
  NearestFit nearest{.missing_bytes = estimate.memory_bytes - estimate.device_memory_bytes};
  const auto fits = [&](const Workload& work) { return estimate_step(model, plan, work, device).fits(); };
  nearest.num_queries = largest(1, workload.num_queries - 1, [&](std::int64_t count) {
    Workload fewer = workload;
    fewer.num_queries = count;
    return fits(fewer);
  });
  nearest.context_length = largest(0, workload.context_length - 1, [&](std::int64_t length) {
    Workload shorter = workload;
    shorter.context_length = length;
    return fits(shorter);
  });
  for (std::int64_t count = plan.num_devices; count <= max_devices && !nearest.plan; count *= 2) {
    double quickest = std::numeric_limits<double>::infinity();
    std::map<std::string, std::int64_t> excluded;
    for (const ParallelPlan& candidate : legal_plans(model.config, count, excluded)) {
      const StepEstimate other = estimate_step(model, candidate, workload, device);
      if (!other.fits() || other.seconds >= quickest) continue;
      quickest = other.seconds;
      nearest.plan = candidate;
    }
  }
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
  if (ways.empty()) return text + "; neither another plan, fewer queries nor a shorter context would help";
  return fmt::format("{}; {}", text, fmt::join(ways, "; "));
}

}  // namespace baleen
