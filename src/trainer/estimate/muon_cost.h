/// What the trainer's optimiser computes and keeps. (source: training 3, 4.4, 5)
#pragma once

#include <cstdint>

#include "model/config.h"

namespace baleen {

/// Of all parameters of a model, or of a part of it.
struct OptimiserCost {
  double muon_flops = 0;
  std::int64_t muon_parameters = 0;
  std::int64_t adamw_parameters = 0;

  OptimiserCost& operator+=(const OptimiserCost& other);
};

/// Routed experts, and all else, by the trainer's groups: routing biases and hash tables have no optimiser.
struct ModelOptimiserCost {
  OptimiserCost experts;
  OptimiserCost dense;
};
[[nodiscard]] ModelOptimiserCost optimiser_cost(const ModelConfig& config);

}  // namespace baleen
