/// Hyper-connections, exit of a sublayer: x'[k] = bf(post_k f + sum_j comb[j][k] x[j]).
/// (source: forward pass 4.3)
#pragma once

#include "numeric/dtype.h"
#include "ops/hc_pre/hc_pre.h"
#include "ops/operation/variant.h"
#include "tensor/activations.h"

namespace baleen {

template <class T>
struct HcPostArgsOf {
  ActivationView<const T, 2> f;     ///< [T, d], the sublayer's result
  ActivationView<const T, 2> post;  ///< [T, n]
  ActivationView<const T, 3> comb;  ///< [T, n, n], first index = source stream
  Precision precision = Precision::kReleased;
  ActivationView<T, 3> streams;  ///< [T, n, d], read and overwritten
  /// [T, n, d], read in the place of `streams`, where a backward needs them afterwards: on a CPU. Empty: not.
  ActivationView<const T, 3> before{};

  [[nodiscard]] ActivationView<const T, 3> entering() const {
    return before.empty() ? ActivationView<const T, 3>(streams) : before;
  }
};
using HcPostArgs = HcPostArgsOf<float>;

void hc_post_ref(const HcPostArgs& args);
/// The same in float64, for gradients that are checked in it; roundings go by way of float32.
void hc_post_f64(const HcPostArgsOf<double>& args);
void hc_post_cpu(const HcPostArgs& args, CpuContext& context);
[[nodiscard]] OpCost hc_post_cost(const HcPostArgs& args);
[[nodiscard]] OpCost hc_post_backward_cost(const HcPostArgs& args);
/// Of the three in one pass: the streams are read once and written once.
[[nodiscard]] OpCost hc_post_pre_norm_cost(const HcPostArgs& post, const HcPreArgs& pre,
                                           const RmsNormArgs& norm);

namespace ops {

struct HcPost {
  using Args = HcPostArgs;
  template <class T>
  using ArgsOf = HcPostArgsOf<T>;
  static void run_f64(const HcPostArgsOf<double>& args) { hc_post_f64(args); }
  static constexpr std::string_view kName = "hc_post";
  [[nodiscard]] static OpCost cost(const HcPostArgs& args) { return hc_post_cost(args); }
  [[nodiscard]] static OpCost backward_cost(const HcPostArgs& args) { return hc_post_backward_cost(args); }
  [[nodiscard]] static CallShape shape(const HcPostArgs& args);
  static void accesses(const HcPostArgs& args, Accesses& to);
  [[nodiscard]] static std::span<const CpuVariant<HcPost>> cpu_variants();
};

}  // namespace ops

template <>
struct Fusion<ops::HcPost, ops::HcPre, ops::RmsNorm> {
  static constexpr std::string_view kName = "hc_post_pre_norm";
  [[nodiscard]] static OpCost cost(const HcPostArgs& post, const HcPreArgs& pre, const RmsNormArgs& norm) {
    return hc_post_pre_norm_cost(post, pre, norm);
  }
  [[nodiscard]] static CallShape shape(const HcPostArgs& post, const HcPreArgs& /*pre*/,
                                       const RmsNormArgs& /*norm*/) {
    return ops::HcPost::shape(post);
  }
};

}  // namespace baleen
