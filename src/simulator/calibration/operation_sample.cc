#include "simulator/calibration/operation_sample.h"

#include <algorithm>
#include <map>
#include <set>

#include "simulator/cost/time_model.h"

namespace baleen {
namespace {

DeviceProfile with_full_shares(DeviceProfile device) {
  device.operations.clear();
  device.efficiency = {.compute = 1, .memory = 1, .scalar = 1};
  return device;
}

/// An operation that does nothing of a kind has no share in it.
double term_seconds(double ideal_seconds, double share) {
  return ideal_seconds > 0 ? ideal_seconds / share : 0;
}

}  // namespace

std::vector<OperationSample> ideal_samples(std::span<const OpGraph> graphs, const DeviceProfile& device) {
  const DeviceProfile ideal = with_full_shares(device);
  const TimeModel times(ideal, true);
  std::map<std::string_view, OperationSample> samples;
  std::set<std::string_view> uneven;
  for (const OpGraph& graph : graphs) {
    for (const GraphOp& op : graph.ops) {
      if (op.is_collective()) continue;
      OperationSample& sample = samples[op.name];
      if (sample.calls.empty()) {
        sample.operation = op.name;
        sample.num_rows = op.num_rows;
      }
      if (sample.num_rows != op.num_rows) uneven.insert(op.name);
      sample.num_kernels += op.num_kernels;
      const OpTime time = times.time_of(op);
      const auto same = std::ranges::find_if(sample.calls, [&](const IdealCalls& calls) {
        return calls.compute_seconds == time.compute_seconds && calls.memory_seconds == time.memory_seconds;
      });
      if (same != sample.calls.end()) {
        ++same->count;
      } else {
        sample.calls.push_back({1, time.compute_seconds, time.memory_seconds});
      }
    }
  }
  std::vector<OperationSample> found;
  for (auto& [name, sample] : samples) {
    if (!uneven.contains(name)) found.push_back(std::move(sample));
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
