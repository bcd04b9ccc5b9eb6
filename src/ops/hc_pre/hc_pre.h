/// Manifold-constrained hyper-connections, entry of a half-block: four residual streams become one vector,
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
struct HcWeights {
  View<const float, 2> fn;       ///< [(2 + n) n, n d] (hc_head: [n, n d]), dense
  std::span<const float> base;   ///< [(2 + n) n]      (hc_head: [n])
  std::span<const float> scale;  ///< [3]              (hc_head: [1])
};

struct HcPreArgs {
  ConstActivations<3>
      streams;  ///< [T, n, d], the streams of a token one behind the other; n d a multiple of 128
  HcWeights weights;
  float norm_eps = 1e-6F;
  float hc_eps = 1e-6F;
  int sinkhorn_iterations = 20;
  Precision precision = Precision::kReleased;
  Activations<2> u;     ///< [T, d]
  Activations<2> post;  ///< [T, n]
  Activations<3> comb;  ///< [T, n, n]
};

void hc_pre_ref(const HcPreArgs& args);
void hc_pre_cpu(const HcPreArgs& args, CpuContext& context);
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
  static constexpr std::string_view kName = "hc_pre";
  [[nodiscard]] static OpCost cost(const HcPreArgs& args) { return hc_pre_cost(args); }
  [[nodiscard]] static OpCost backward_cost(const HcPreArgs& args) { return hc_pre_backward_cost(args); }
  [[nodiscard]] static CallShape shape(const HcPreArgs& args);
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
