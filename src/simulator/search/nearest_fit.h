/// What would fit where a deployment's memory does not suffice.
#pragma once

#include <optional>
#include <string>

#include "simulator/cost/step_estimate.h"

namespace baleen {

/// Each nearest to what was asked; what is missing does not help.
struct NearestFit {
  std::int64_t missing_bytes = 0;  ///< what the fullest device lacks
  std::optional<ParallelPlan>
      plan;  ///< same workload: on as many devices, otherwise on twice as many, and so on
  std::optional<std::int64_t> num_queries;     ///< same plan: the most that fit
  std::optional<std::int64_t> context_length;  ///< same plan and queries: the longest that fits
  std::optional<std::int64_t>
      query_length;  ///< same plan, context and queries, not while decoding: the longest prompt
};

/// Plans of up to `max_devices` are tried. `estimate` is that of `plan` and does not fit.
[[nodiscard]] NearestFit nearest_fit(const SimulatedModel& model, const ParallelPlan& plan,
                                     const Workload& workload, const DeviceProfile& device,
                                     const StepEstimate& estimate, std::int64_t max_devices = 64);

/// A sentence: how much is missing, and what to try instead.
[[nodiscard]] std::string to_text(const NearestFit& fit, const Workload& workload);

}  // namespace baleen
