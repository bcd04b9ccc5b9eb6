/// Logits: float32 products of the normalised rows with the head matrix.     (source: forward pass 3; "head.weight")
#pragma once

#include "ops/matmul/matmul.h"

namespace baleen {

struct LmHeadArgs {
  ConstActivations<2> x;                 ///< [R, d]
  const WeightMatrix* weight = nullptr;  ///< [V, d] BF16
  Activations<2> logits;                 ///< [R, V], not rounded
};

void lm_head(const LmHeadArgs& args, CpuContext& context);
[[nodiscard]] OpCost lm_head_cost(const LmHeadArgs& args);

}  // namespace baleen
