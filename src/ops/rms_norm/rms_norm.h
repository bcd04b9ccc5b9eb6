/// Root-mean-square normalisation of rows.                                 (source: forward pass 2.5 and 5.1)
///
/// With a weight: y = bf(w * (x * rsqrt(mean(x^2) + eps))), float32 inside, one rounding at the end.
/// Without (the per-head norm of queries) the released code works on BF16 tensors and rounds after every
/// step: r = bf(rsqrt(bf(bf(mean(bf(x^2))) + eps))), y = bf(x * r). In `exact` nothing is rounded.
/// `training` is `simd`, but for the norm that rounds after every step, whose squares it sums in double.
#pragma once

#include <span>

#include "numeric/dtype.h"
#include "ops/operation/variant.h"
#include "ops/rope/rope.h"
#include "tensor/activations.h"
#include "tensor/fp8_rows.h"

namespace baleen {

template <class T>
struct RmsNormArgsOf {
  ActivationView<const T, 2> x;  ///< [rows, width]
  std::span<const T> weight;     ///< [width], or empty: no weight and stepwise rounding
  float eps = 1e-6F;
  Precision precision = Precision::kReleased;
  ActivationView<T, 2> y;           ///< [rows, width]; may be x
  Fp8Rows y_fp8{};                  ///< y for FP8 products, written too where a device has buffers for it
  std::int64_t rows_per_token = 1;  ///< where rows are heads
};
using RmsNormArgs = RmsNormArgsOf<float>;

void rms_norm_ref(const RmsNormArgs& args);
/// The same in float64, for gradients that are checked in it; roundings go by way of float32.
void rms_norm_f64(const RmsNormArgsOf<double>& args);
void rms_norm_cpu(const RmsNormArgs& args, CpuContext& context);
[[nodiscard]] OpCost rms_norm_cost(const RmsNormArgs& args);
[[nodiscard]] OpCost rms_norm_backward_cost(const RmsNormArgs& args);
/// Of norm and rotation in one pass.
[[nodiscard]] OpCost rms_norm_rope_cost(const RmsNormArgs& norm, const RopeArgs& rotation);

namespace ops {

struct RmsNorm {
  using Args = RmsNormArgs;
  template <class T>
  using ArgsOf = RmsNormArgsOf<T>;
  static void run_f64(const RmsNormArgsOf<double>& args) { rms_norm_f64(args); }
  static constexpr std::string_view kName = "rms_norm";
  [[nodiscard]] static OpCost cost(const RmsNormArgs& args) { return rms_norm_cost(args); }
  [[nodiscard]] static OpCost backward_cost(const RmsNormArgs& args) { return rms_norm_backward_cost(args); }
  [[nodiscard]] static CallShape shape(const RmsNormArgs& args);
  static void accesses(const RmsNormArgs& args, Accesses& to);
  [[nodiscard]] static std::span<const CpuVariant<RmsNorm>> cpu_variants();
};

}  // namespace ops

template <>
struct Fusion<ops::RmsNorm, ops::Rope> {
  static constexpr std::string_view kName = "rms_norm_rope";
  [[nodiscard]] static OpCost cost(const RmsNormArgs& norm, const RopeArgs& rotation) {
    return rms_norm_rope_cost(norm, rotation);
  }
  [[nodiscard]] static CallShape shape(const RmsNormArgs& /*norm*/, const RopeArgs& rotation) {
    return ops::Rope::shape(rotation);
  }
};

}  // namespace baleen
