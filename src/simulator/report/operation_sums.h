/// Operations of a step summed under one name.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "simulator/report/step_report.h"

namespace baleen {

struct OperationSum {
  std::string name;
  std::int64_t calls = 0;
  double seconds = 0;
  double flops = 0;
  double bytes = 0;                                ///< what goes through memory, or over links
  std::array<double, kNumBounds> bound_seconds{};  ///< one for each `Bound`

  /// What most of its time is bound by.
  [[nodiscard]] Bound bound() const;
};

/// The slowest first.
[[nodiscard]] std::vector<OperationSum> operation_sums(const StepEstimate& estimate, TableRows rows);

}  // namespace baleen
