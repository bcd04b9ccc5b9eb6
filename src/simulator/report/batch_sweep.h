/// The same plan with other numbers of queries: what a device yields against what a user waits.
#pragma once

#include <cstdint>
#include <vector>

#include "plots/html_page.h"
#include "simulator/report/step_report.h"

namespace baleen {

struct BatchPoint {
  std::int64_t num_queries = 1;
  double step_seconds = 0;
  double tokens_per_second_per_device = 0;  ///< tokens of replies while decoding, of prompts otherwise
  double tokens_per_second_per_user = 0;    ///< while decoding
  std::int64_t memory_bytes = 0;
  bool fits = true;
};

/// Doublings from one query a data-parallel group as far as memory goes, and the report's own number, by
/// rising number.
[[nodiscard]] std::vector<BatchPoint> batch_sweep(const StepReport& report);

/// Decoding: tokens/s of a device over tokens/s of a user. Prefill: prompt tokens/s of a device over time to
/// the first token.
[[nodiscard]] Figure batch_figure(const StepReport& report, const std::vector<BatchPoint>& points);

}  // namespace baleen
