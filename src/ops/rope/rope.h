/// Rotary embedding of the last dimensions of every head, in place; `inverse` turns the attention output
/// back. Interleaved pairs, float32 inside, one BF16 rounding (none in `exact`).
/// (source: forward pass 5.2, 5.8)
#pragma once

#include "numeric/dtype.h"
#include "ops/operation/variant.h"
#include "ops/rope/rope_frequencies.h"
#include "tensor/activations.h"

namespace baleen {

struct RopeArgs {
  Activations<3> x;  ///< [T, heads, head_dim]; the last 2 * cosine.extent(1) values of each head turn
  ConstActivations<2> cosine;  ///< [T, rotary_dim / 2], of each row's own position
  ConstActivations<2> sine;    ///< the same
  bool inverse = false;
  Precision precision = Precision::kReleased;
};

void rope_ref(const RopeArgs& args);
void rope_cpu(const RopeArgs& args, CpuContext& context);
[[nodiscard]] OpCost rope_cost(const RopeArgs& args);
[[nodiscard]] OpCost rope_backward_cost(const RopeArgs& args);

namespace ops {

struct Rope {
  using Args = RopeArgs;
  static constexpr std::string_view kName = "rope";
  [[nodiscard]] static OpCost cost(const RopeArgs& args) { return rope_cost(args); }
  [[nodiscard]] static OpCost backward_cost(const RopeArgs& args) { return rope_backward_cost(args); }
  [[nodiscard]] static CallShape shape(const RopeArgs& args);
  [[nodiscard]] static std::span<const CpuVariant<Rope>> cpu_variants();
};

}  // namespace ops

}  // namespace baleen
