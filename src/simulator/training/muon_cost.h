/// What the optimiser computes and keeps.                                            (source: training 3, 4.4, 5)
#pragma once

#include <cstdint>

#include "model/config.h"
#include "model/tensor_table.h"

namespace baleen {

/// Ten steps of Newton-Schulz on one matrix [p, q], p the smaller side: three products a step, 10 (4 p^2 q + 2 p^3).
[[nodiscard]] double newton_schulz_flops(std::int64_t rows, std::int64_t cols);

/// Of all parameters of a model, or of a part of it.
struct OptimiserCost {
  double muon_flops = 0;
  std::int64_t muon_parameters = 0;
  std::int64_t adamw_parameters = 0;

  OptimiserCost& operator+=(const OptimiserCost& other);
};

/// One tensor's part: each matrix that the report names by a symbol of its own is one matrix for Muon (compressor halves, the
/// three parts of a mixing, the groups of wo_a, each expert). Vectors, embedding and head go to AdamW; tables of token ids
/// and router biases to neither.
[[nodiscard]] OptimiserCost optimiser_cost(const TensorSpec& tensor, const ModelConfig& config);

/// Routed experts, and all else.
struct ModelOptimiserCost {
  OptimiserCost experts;
  OptimiserCost dense;
};
[[nodiscard]] ModelOptimiserCost optimiser_cost(const ModelConfig& config);

}  // namespace baleen
