/// Rotary embedding of the last dimensions of every head, in place; `inverse` rotates the attention output
/// back. Interleaved pairs, float32 inside, one BF16 rounding (none in `exact`).
/// (source: forward pass 5.2, 5.8)
///
/// The backward of a rotation is the rotation by the opposite angle: `inverse` of the same. `training` rounds
/// each product to float32 before it is added, where `simd` fuses one of them.
#pragma once

#include "numeric/dtype.h"
#include "ops/operation/variant.h"
#include "ops/rope/rope_frequencies.h"
#include "tensor/activations.h"

namespace baleen {

template <class T>
struct RopeArgsOf {
  ActivationView<T, 3>
      x;  ///< [T, heads, head_dim]; the last 2 * cosine.extent(1) values of each head are rotated
  ActivationView<const T, 2> cosine;  ///< [T, rotary_dim / 2], of each row's own position
  ActivationView<const T, 2> sine;    ///< [T, rotary_dim / 2], likewise
  bool inverse = false;
  Precision precision = Precision::kReleased;
};
using RopeArgs = RopeArgsOf<float>;

void rope_ref(const RopeArgs& args);
/// The same in float64, for gradients that are checked in it; roundings go by way of float32.
void rope_f64(const RopeArgsOf<double>& args);
void rope_cpu(const RopeArgs& args, CpuContext& context);
/// The variant `training`.
void rope_training(const RopeArgs& args, CpuContext& context);
[[nodiscard]] OpCost rope_cost(const RopeArgs& args);
[[nodiscard]] OpCost rope_backward_cost(const RopeArgs& args);

namespace ops {

struct Rope {
  using Args = RopeArgs;
  template <class T>
  using ArgsOf = RopeArgsOf<T>;
  static void run_f64(const RopeArgsOf<double>& args) { rope_f64(args); }
  static constexpr std::string_view kName = "rope";
  [[nodiscard]] static OpCost cost(const RopeArgs& args) { return rope_cost(args); }
  [[nodiscard]] static OpCost backward_cost(const RopeArgs& args) { return rope_backward_cost(args); }
  [[nodiscard]] static CallShape shape(const RopeArgs& args);
  static void accesses(const RopeArgs& args, Accesses& to);
  [[nodiscard]] static std::span<const CpuVariant<Rope>> cpu_variants();
};

}  // namespace ops

}  // namespace baleen
