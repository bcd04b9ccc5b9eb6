/// Entry of the MTP block: every residual stream takes the embedding's term, x[s] <- bf(e + x[s]).
/// (source: forward pass 8; e = e_proj(enorm(embedding)), x[s] = h_proj(hnorm(stream s)), both rounded by
/// `linear`)
#pragma once

#include "numeric/dtype.h"
#include "ops/operation/variant.h"
#include "tensor/activations.h"

namespace baleen {

template <class T>
struct MtpCombineArgsOf {
  ActivationView<const T, 2> embedded;  ///< [T, d]
  Precision precision = Precision::kReleased;
  ActivationView<T, 3> streams;  ///< [T, n, d], read and overwritten
};
using MtpCombineArgs = MtpCombineArgsOf<float>;

/// A plain loop that compilers vectorise: it is its own reference.
void mtp_combine_ref(const MtpCombineArgs& args, CpuContext& context);
/// The same in float64, for gradients that are checked in it; roundings go by way of float32.
void mtp_combine_f64(const MtpCombineArgsOf<double>& args);
[[nodiscard]] OpCost mtp_combine_cost(const MtpCombineArgs& args);
[[nodiscard]] OpCost mtp_combine_backward_cost(const MtpCombineArgs& args);

namespace ops {

struct MtpCombine {
  using Args = MtpCombineArgs;
  template <class T>
  using ArgsOf = MtpCombineArgsOf<T>;
  static void run_f64(const MtpCombineArgsOf<double>& args) { mtp_combine_f64(args); }
  static constexpr std::string_view kName = "mtp_combine";
  [[nodiscard]] static OpCost cost(const MtpCombineArgs& args) { return mtp_combine_cost(args); }
  [[nodiscard]] static OpCost backward_cost(const MtpCombineArgs& args) {
    return mtp_combine_backward_cost(args);
  }
  [[nodiscard]] static CallShape shape(const MtpCombineArgs& args);
  static void accesses(const MtpCombineArgs& args, Accesses& to);
  [[nodiscard]] static std::span<const CpuVariant<MtpCombine>> cpu_variants();
};

}  // namespace ops

}  // namespace baleen
