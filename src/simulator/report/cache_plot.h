/// Bytes of the key-value cache against context: held by a sequence, and read for one token, beside V3.2's.
#pragma once

#include "plots/html_page.h"
#include "simulator/cost/step_estimate.h"

namespace baleen {

/// What one sequence of so many positions holds, and its next token reads, over all layers.
struct CacheBytes {
  std::int64_t num_positions = 0;
  double held = 0;
  double read = 0;
};

/// Doublings up to the model's longest context.
[[nodiscard]] std::vector<CacheBytes> cache_bytes_by_context(const SimulatedModel& model);

/// `num_positions` of the workload are marked.
[[nodiscard]] Figure cache_figure(const SimulatedModel& model, std::int64_t num_positions);

}  // namespace baleen
