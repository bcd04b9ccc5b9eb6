/// Hyper-connections at the end: the streams become the one vector that the final norm and the LM head see.
/// pre = sigmoid((fn x) rho scale[0] + base) + hc_eps;  y = bf(sum_j pre_j x_j).
/// Where mixing lags (V4.1) there are no such weights: pre is `given`, what the last half-block left.
/// (source: forward pass 4.4; releases specification 2.6)
///
/// `training` takes the products from ops/dense_product, and its exponentials are those of vectors.
#pragma once

#include "ops/hc_pre/hc_pre.h"
#include "ops/operation/variant.h"

namespace baleen {

template <class T>
struct HcHeadArgsOf {
  ActivationView<const T, 3> streams;  ///< [T, n, d]
  HcWeightsOf<T> weights;              ///< fn [n, n d], base [n], scale [1]
  float norm_eps = 1e-6F;
  float hc_eps = 1e-6F;
  Precision precision = Precision::kReleased;
  ActivationView<T, 2> y;            ///< [T, d]
  ActivationView<T, 2> products;     ///< [T, n] fn x, for the backward, on a CPU; empty: not kept
  ActivationView<const T, 2> given;  ///< [T, n] pre; empty: made by `weights`
};
using HcHeadArgs = HcHeadArgsOf<float>;

void hc_head_ref(const HcHeadArgs& args);
/// The same in float64, for gradients that are checked in it; roundings go by way of float32.
void hc_head_f64(const HcHeadArgsOf<double>& args);
void hc_head_cpu(const HcHeadArgs& args, CpuContext& context);
/// The variant `training`.
void hc_head_training(const HcHeadArgs& args, CpuContext& context);
[[nodiscard]] OpCost hc_head_cost(const HcHeadArgs& args);
[[nodiscard]] OpCost hc_head_backward_cost(const HcHeadArgs& args);
[[nodiscard]] std::int64_t hc_head_scratch_bytes(std::int64_t num_rows, std::int64_t num_streams,
                                                 std::int64_t width);

namespace ops {

struct HcHead {
  using Args = HcHeadArgs;
  template <class T>
  using ArgsOf = HcHeadArgsOf<T>;
  static void run_f64(const HcHeadArgsOf<double>& args) { hc_head_f64(args); }
  static constexpr std::string_view kName = "hc_head";
  [[nodiscard]] static OpCost cost(const HcHeadArgs& args) { return hc_head_cost(args); }
  [[nodiscard]] static OpCost backward_cost(const HcHeadArgs& args) { return hc_head_backward_cost(args); }
  [[nodiscard]] static CallShape shape(const HcHeadArgs& args);
  static void accesses(const HcHeadArgs& args, Accesses& to);
  [[nodiscard]] static std::span<const CpuVariant<HcHead>> cpu_variants();
};

}  // namespace ops

}  // namespace baleen
