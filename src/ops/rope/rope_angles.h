/// The rotation angles of a step's positions: cos and sin of fl32(position * f_i), once for all layers of a kind.
/// (source: forward pass 5.2)
#pragma once

#include <span>

#include "ops/operation/operation.h"
#include "tensor/activations.h"
#include "tensor/ragged_batch.h"

namespace baleen {

struct RopeAnglesArgs {
  std::span<const float> frequencies;  ///< [rotary_dim / 2]
  RaggedBatch batch;
  Activations<2> cosine;  ///< out [T, rotary_dim / 2] float32; of padding rows: of position 0
  Activations<2> sine;
};

void rope_angles(const RopeAnglesArgs& args, CpuContext& context);
[[nodiscard]] OpCost rope_angles_cost(const RopeAnglesArgs& args);

}  // namespace baleen
