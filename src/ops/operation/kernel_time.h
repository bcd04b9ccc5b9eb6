/// Predicted time of kernels, and the choice among kernels by it (docs/ops.md): a kernel is described by what
/// it moves and by how long its busiest unit works; the device's row has the rates.
#pragma once

#include <algorithm>
#include <functional>

#include "ops/operation/device_traits.h"

namespace baleen {

/// One kernel, or several that follow one another, as a prediction sees it.
struct KernelWork {
  double bytes = 0;          ///< that the device's memory gives and takes
  double memory_share = 1;   ///< such a kernel reaches this part of the device's rate
  double busy_seconds = 0;   ///< the unit with most to do works so long if memory does not hold it up
  double fixed_seconds = 0;  ///< that nothing hides
  double num_launches = 1;
};

/// Launches, then the longer of memory's time and the busiest unit's; of the shorter an eighth does not hide
/// behind it. (The eighth is fitted: with it FP8 products of 16 and 64 tokens take what
/// bench/results/kernels-h200.csv says within 20%.)
[[nodiscard]] constexpr double seconds_of(const KernelWork& work, const DeviceRates& rates) {
  constexpr double kNotHidden = 0.125;
  const double memory = rates.memory_bytes_per_second > 0
                            ? work.bytes / (rates.memory_bytes_per_second * work.memory_share)
                            : 0;
  return work.num_launches * rates.launch_seconds + work.fixed_seconds + std::max(memory, work.busy_seconds) +
         kNotHidden * std::min(memory, work.busy_seconds);
}

/// How many of `count` equal pieces a unit gets that takes one after the other, at least one.
[[nodiscard]] constexpr double pieces_in_turn(std::int64_t count, std::int64_t num_units) {
  return std::max(1.0, static_cast<double>(count) / static_cast<double>(num_units));
}

[[nodiscard]] constexpr std::int64_t pieces_of(std::int64_t extent, std::int64_t piece) {
  return (extent + piece - 1) / piece;
}

/// Of `candidates` the one that takes the least time, by `seconds(candidate)`; of equal ones the first.
template <class Candidates, class Seconds>
[[nodiscard]] constexpr const auto& quickest(const Candidates& candidates, Seconds seconds) {
  return *std::ranges::min_element(candidates, std::less<>(), seconds);
}

}  // namespace baleen
