/// Shares of the peaks that explain measured times of an operation.
///
///     seconds = static x launches + sum over calls of max(compute / c, memory / m)
///
/// `static` is one figure for the operation, c and m are of a number of rows. The sum of |log(modelled /
/// measured)| is made small, so that a measurement that went wrong has no pull as long as it is in the
/// minority; longer times weigh more.
/// Where samples of one number of rows differ in how much they compute for each byte, they tell which of the
/// two binds; where they do not, it is the one that comes closer to its peak. The other share is then the
/// least with which it does not bind in any sample: what was seen to be reached, not what can be.
///
/// Models of different sizes tell `static` from the rest. Of one size alone it cannot be separated, and is 0.
#pragma once

#include <span>

#include "hardware/device_profile.h"
#include "simulator/calibration/operation_sample.h"

namespace baleen {

/// Largest share that a fit gives: caches can be quicker than the memory that shares refer to.
/// (`parse_device_profile` takes no larger ones.)
inline constexpr double kMaxShare = 4;

/// Samples of one operation, at any numbers of rows. Those without seconds or calls are passed over; without
/// any others there are no points.
[[nodiscard]] OperationEfficiency fit_operation(std::span<const OperationSample> samples);

}  // namespace baleen
