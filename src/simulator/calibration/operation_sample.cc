#include "simulator/calibration/operation_sample.h"

#include <algorithm>
#include <map>

#include "simulator/cost/time_model.h"

namespace baleen {
namespace {

constexpr EfficiencyPoint kFullShares{.compute = 1, .memory = 1, .scalar = 1, .static_seconds = 0};

DeviceProfile with_full_shares(DeviceProfile device) {
  device.operations.clear();
  device.efficiency = kFullShares;
  return device;
}

/// What calls with other numbers of rows may do beside: the head's norm, of few rows, is one of many norms.
constexpr double kLeastShareOfOneSize = 0.9;

void add_call(const GraphOp& op, const OpTime& time, OperationSample& sample) {
  sample.operation = op.name;
  sample.num_rows = op.num_rows;
  sample.num_heads = op.num_heads;
  sample.num_kernels += op.num_kernels;
  const auto same = std::ranges::find_if(sample.calls, [&](const IdealCalls& calls) {
    return calls.compute_seconds == time.compute_seconds && calls.memory_seconds == time.memory_seconds;
  });
  if (same != sample.calls.end()) {
    ++same->count;
  } else {
    sample.calls.push_back({1, time.compute_seconds, time.memory_seconds});
  }
}

/// An operation that does nothing of a kind has no share in it.
double term_seconds(double ideal_seconds, double share) {
  return ideal_seconds > 0 ? ideal_seconds / share : 0;
}

}  // namespace

std::vector<OperationSample> ideal_samples(std::span<const OpGraph> graphs, const DeviceProfile& device) {
  const DeviceProfile ideal = with_full_shares(device);
  const TimeModel times(ideal, true);
  std::map<std::string_view, std::map<double, OperationSample>> by_rows;  // of every operation
  for (const OpGraph& graph : graphs) {
    for (const GraphOp& op : graph.ops) {
      if (!op.is_collective()) add_call(op, times.time_of(op), by_rows[op.name][op.num_rows]);
    }
  }
  std::vector<OperationSample> found;
  for (auto& [name, samples] : by_rows) {
    double all_work = 0, most_work = -1;
    OperationSample* largest = nullptr;
    for (auto& [num_rows, sample] : samples) {
      const double work = modelled_seconds(sample, kFullShares);
      all_work += work;
      if (work <= most_work) continue;
      most_work = work;
      largest = &sample;
    }
    if (most_work >= kLeastShareOfOneSize * all_work) found.push_back(std::move(*largest));
  }
  return found;
}

double modelled_seconds(const OperationSample& sample, const EfficiencyPoint& point) {
  double seconds = point.static_seconds * sample.num_kernels;
  for (const IdealCalls& calls : sample.calls) {
    seconds += calls.count * std::max(term_seconds(calls.compute_seconds, point.compute),
                                      term_seconds(calls.memory_seconds, point.memory));
  }
  return seconds;
}

}  // namespace baleen
