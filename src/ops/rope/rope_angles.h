/// The rotation angles of a step's positions: cos and sin of fl32(position * f_i), once for all layers of a
/// kind. (source: forward pass 5.2)
#pragma once

#include <span>

#include "ops/operation/variant.h"
#include "tensor/activations.h"
#include "tensor/ragged_batch.h"

namespace baleen {

struct RopeAnglesArgs {
  std::span<const float> frequencies;  ///< [rotary_dim / 2]
  RaggedBatch batch;
  Activations<2> cosine;  ///< out [T, rotary_dim / 2] float32; of padding rows: of position 0
  Activations<2> sine;
};

void rope_angles_ref(const RopeAnglesArgs& args);
[[nodiscard]] OpCost rope_angles_cost(const RopeAnglesArgs& args);

namespace ops {

struct RopeAngles {
  using Args = RopeAnglesArgs;
  static constexpr std::string_view kName = "rope_angles";
  [[nodiscard]] static OpCost cost(const RopeAnglesArgs& args) { return rope_angles_cost(args); }
  [[nodiscard]] static CallShape shape(const RopeAnglesArgs& args);
  static void accesses(const RopeAnglesArgs& args, Accesses& to);
  [[nodiscard]] static std::span<const CpuVariant<RopeAngles>> cpu_variants();
};

}  // namespace ops

}  // namespace baleen
