/// What was measured of an operation, beside what it would take on a device whose kernels reach the peaks.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "hardware/device_profile.h"
#include "simulator/graph/op_graph.h"

namespace baleen {

/// Calls of one shape. Seconds are of one of them, with all shares of the peaks 1 and no launches.
struct IdealCalls {
  double count = 1;
  double compute_seconds = 0;  ///< matrix products and other arithmetic
  double memory_seconds = 0;
};

/// All calls of one operation in a few steps, which the device timed together.
struct OperationSample {
  std::string operation;
  double num_rows = 0;     ///< rows that each call has
  double num_heads = 0;    ///< heads that each call of attention has; 0: no heads
  double num_kernels = 0;  ///< launches of all calls, as the time model counts them
  std::vector<IdealCalls> calls;
  double seconds = 0;  ///< measured, of all of them
};

/// The operations of `graphs`, one sample for each name, `seconds` zero. Shares and tables of `device` do not
/// matter. An operation that is called with several numbers of rows has the sample of those calls that do
/// nearly all of its work, and none where there are none such: a sum of times tells of no number.
[[nodiscard]] std::vector<OperationSample> ideal_samples(std::span<const OpGraph> graphs,
                                                         const DeviceProfile& device);

/// What the time model (simulator/cost/time_model.h) says of a sample with these shares; `scalar` is taken to
/// be `compute`.
[[nodiscard]] double modelled_seconds(const OperationSample& sample, const EfficiencyPoint& point);

}  // namespace baleen
