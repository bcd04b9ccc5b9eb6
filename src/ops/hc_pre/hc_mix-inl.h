// SIMD parts that `hc_pre` and `hc_head` share. Included once per instruction set (Highway).

#if defined(BALEEN_OPS_HC_PRE_HC_MIX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BALEEN_OPS_HC_PRE_HC_MIX_INL_H_
#undef BALEEN_OPS_HC_PRE_HC_MIX_INL_H_
#else
#define BALEEN_OPS_HC_PRE_HC_MIX_INL_H_
#endif

#include <hwy/highway.h>

#include "numeric/normalise-inl.h"
#include "ops/hc_pre/hc_pre.h"

HWY_BEFORE_NAMESPACE();
namespace baleen::HWY_NAMESPACE {

/// rho of one token: over all streams, without weight.
HWY_INLINE float streams_inverse_rms(ConstActivations<2> streams, float norm_eps) {
  return inverse_rms_simd(streams.data(), streams.size(), norm_eps);
}

/// y = bf(sum_j pre[j * pre_stride] x_j), unrounded in `exact`.
HWY_INLINE void weighted_stream_sum(ConstActivations<2> streams, const float* pre, std::int64_t pre_stride,
                                    Precision precision, float* y) {
  const bool round = precision != Precision::kExact;
  for_each_vector(streams.extent(1), [&](auto d, std::int64_t i) HWY_ATTR {
    auto sum = hn::Mul(hn::Set(d, pre[0]), hn::LoadU(d, streams.data() + i));
    for (std::int64_t j = 1; j < streams.extent(0); ++j) {
      const auto x = hn::LoadU(d, streams.data() + j * streams.stride(0) + i);
      sum = hn::MulAdd(hn::Set(d, pre[j * pre_stride]), x, sum);
    }
    hn::StoreU(round ? round_bf16_simd(d, sum) : sum, d, y + i);
  });
}

}  // namespace baleen::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // BALEEN_OPS_HC_PRE_HC_MIX_INL_H_
