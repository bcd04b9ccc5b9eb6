/// How a row is sampled, as kernels take it.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <span>

#include "ops/sample/sample.h"

namespace baleen::BALEEN_ARCH::sample_kernels {

inline constexpr int kRowsPerLaunch = 64;  // 2 KB of parameters

/// `SampleRow`, worked out.
struct DeviceSampleRow {
  double min_p_offset;  ///< added to the largest logit: the lowest one kept
  double uniform;
  double top_p;
  float exponent_scale;  ///< log2(e) / temperature; 0: greedy
  std::int32_t top_k;
};

/// `rows`, at most kRowsPerLaunch of them, to `to`.
inline void work_out(std::span<const SampleRow> rows, DeviceSampleRow* to) {
  for (const SampleRow& row : rows) {
    DeviceSampleRow& out = *to++;
    out = {};
    if (row.temperature < kGreedyTemperature) continue;
    out = {.min_p_offset = row.min_p > 0.0 ? row.temperature * std::log(row.min_p)
                                           : -std::numeric_limits<double>::infinity(),
           .uniform = row.uniform,
           .top_p = row.top_p,
           .exponent_scale = static_cast<float>(std::numbers::log2e / row.temperature),
           .top_k = row.top_k};
  }
}

}  // namespace baleen::BALEEN_ARCH::sample_kernels
