/// Manifold-constrained hyper-connections, entry of a sublayer: four residual streams become one vector,
/// plus the weights with which `hc_post` puts the result back. (source: forward pass 4.1, 4.2)
///
///     rho  = rsqrt(mean(x^2) + norm_eps) over all streams;   m = (fn x) * rho                  [(2 + n) n]
///     pre  = sigmoid(m[0:n] scale[0] + base[0:n]) + hc_eps;  post = 2 sigmoid(m[n:2n] scale[1] + base[n:2n])
///     comb = sinkhorn(m[2n:] scale[2] + base[2n:]) as [source stream, destination stream]
///     u    = bf(sum_j pre_j x_j)
///
/// Sinkhorn: row softmax + hc_eps, a column step, then iterations - 1 times row step and column step, each
/// dividing by (sum + hc_eps). All float32; only u is rounded. NaN or infinity in a token's streams makes its
/// results NaN.
///
/// Where mixing lags (V4.1), u is summed up with the pre of the half-block before, `incoming`, and the site's
/// own goes on to the next: u = bf(sum_j incoming_j x_j).
///
/// `training` takes the products from ops/dense_product and multiplies the first softmax by the inverse of
/// its sum, where `simd` divides.
#pragma once

#include <cstdint>
#include <span>

#include "numeric/dtype.h"
#include "ops/operation/variant.h"
#include "ops/rms_norm/rms_norm.h"
#include "tensor/activations.h"

namespace baleen {

/// Most residual streams the operations take; every known model has 4.
inline constexpr std::int64_t kMaxStreams = 8;

/// Parameters of one mHC site: tensors "hc_*_fn", "hc_*_base", "hc_*_scale". n streams of width d.
template <class T>
struct HcWeightsOf {
  View<const T, 2> fn;       ///< [(2 + n) n, n d] (hc_head: [n, n d]), dense
  std::span<const T> base;   ///< [(2 + n) n]      (hc_head: [n])
  std::span<const T> scale;  ///< [3]              (hc_head: [1])
};
using HcWeights = HcWeightsOf<float>;

template <class T>
struct HcPreArgsOf {
  /// [T, n, d], the streams of a token one behind the other; n d a multiple of 128, but for `training`
  ActivationView<const T, 3> streams;
  HcWeightsOf<T> weights;
  float norm_eps = 1e-6F;
  float hc_eps = 1e-6F;
  int sinkhorn_iterations = 20;
  Precision precision = Precision::kReleased;
  ActivationView<T, 2> u;           ///< [T, d]
  ActivationView<T, 2> post;        ///< [T, n]
  ActivationView<T, 3> comb;        ///< [T, n, n]
  ActivationView<T, 2> products{};  ///< [T, (2 + n) n] fn x, for the backward, on a CPU; empty: not kept
  ActivationView<const T, 2> incoming{};  ///< [T, n] what u is summed up with; empty: the site's own pre
  ActivationView<T, 2> pre{};             ///< [T, n] the site's own, which may be `incoming`; empty: not kept

  [[nodiscard]] bool lags() const { return !incoming.empty(); }
};
using HcPreArgs = HcPreArgsOf<float>;

void hc_pre_ref(const HcPreArgs& args);
/// The same in float64, for gradients that are checked in it; roundings go by way of float32.
void hc_pre_f64(const HcPreArgsOf<double>& args);
void hc_pre_cpu(const HcPreArgs& args, CpuContext& context);
/// The variant `training`.
void hc_pre_training(const HcPreArgs& args, CpuContext& context);
[[nodiscard]] OpCost hc_pre_cost(const HcPreArgs& args);
[[nodiscard]] OpCost hc_pre_backward_cost(const HcPreArgs& args);
/// Of the two in one pass: u is not written in between.
[[nodiscard]] OpCost hc_pre_norm_cost(const HcPreArgs& pre, const RmsNormArgs& norm);
/// Scratch for T rows of n streams of width d.
[[nodiscard]] std::int64_t hc_pre_scratch_bytes(std::int64_t num_rows, std::int64_t num_streams,
                                                std::int64_t width);

namespace ops {

struct HcPre {
  using Args = HcPreArgs;
  template <class T>
  using ArgsOf = HcPreArgsOf<T>;
  static void run_f64(const HcPreArgsOf<double>& args) { hc_pre_f64(args); }
  static constexpr std::string_view kName = "hc_pre";
  [[nodiscard]] static OpCost cost(const HcPreArgs& args) { return hc_pre_cost(args); }
  [[nodiscard]] static OpCost backward_cost(const HcPreArgs& args) { return hc_pre_backward_cost(args); }
  [[nodiscard]] static CallShape shape(const HcPreArgs& args);
  static void accesses(const HcPreArgs& args, Accesses& to);
  [[nodiscard]] static std::span<const CpuVariant<HcPre>> cpu_variants();
};

}  // namespace ops

template <>
struct Fusion<ops::HcPre, ops::RmsNorm> {
  static constexpr std::string_view kName = "hc_pre_norm";
  [[nodiscard]] static OpCost cost(const HcPreArgs& pre, const RmsNormArgs& norm) {
    return hc_pre_norm_cost(pre, norm);
  }
  [[nodiscard]] static CallShape shape(const HcPreArgs& pre, const RmsNormArgs& /*norm*/) {
    return ops::HcPre::shape(pre);
  }
};

}  // namespace baleen
