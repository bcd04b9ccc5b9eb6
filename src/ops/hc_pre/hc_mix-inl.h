// SIMD parts that `hc_pre` and `hc_head` share. Included once per instruction set (Highway).

#if defined(BALEEN_OPS_HC_PRE_HC_MIX_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BALEEN_OPS_HC_PRE_HC_MIX_INL_H_
#undef BALEEN_OPS_HC_PRE_HC_MIX_INL_H_
#else
#define BALEEN_OPS_HC_PRE_HC_MIX_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>

#include "numeric/exp-inl.h"
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

/// The mixes' logits of tokens [begin, begin + count), one a lane: products rho scale + base. values: [mixes,
/// lanes]; lanes without a token get base.
template <class D>
HWY_INLINE void mix_logits(D d, ConstActivations<3> streams, const HcWeights& weights, float norm_eps,
                           ConstActivations<2> products, std::int64_t begin, std::int64_t count,
                           float* values) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t num_mixes = products.extent(1);
  alignas(64) float rho[hn::MaxLanes(D())] = {};
  std::fill(values, values + num_mixes * lanes, 0.0F);
  for (std::int64_t lane = 0; lane < count; ++lane) {
    rho[lane] = streams_inverse_rms(streams[begin + lane], norm_eps);
    for (std::int64_t i = 0; i < num_mixes; ++i) values[i * lanes + lane] = products(begin + lane, i);
  }
  for (std::int64_t i = 0; i < num_mixes; ++i) {
    const auto part = static_cast<std::size_t>(std::min<std::int64_t>(i / streams.extent(1), 2));
    const auto scale = hn::Set(d, weights.scale[part]);
    const auto base = hn::Set(d, weights.base[static_cast<std::size_t>(i)]);
    const auto m = hn::Mul(hn::Load(d, values + i * lanes), hn::Load(d, rho));
    hn::Store(hn::MulAdd(m, scale, base), d, values + i * lanes);
  }
}

/// What the backward of a Sinkhorn reads of it, vectors of `lanes`; null: not kept.
struct SinkhornSteps {
  float* soft = nullptr;      ///< [n, n] the first softmax
  float* sums = nullptr;      ///< [2 iterations - 1, n] of each step's lines, with eps
  float* inverses = nullptr;  ///< 1 / sums
};

/// Divides each of the n lines of c by its sum + eps: element k of line j at c + j * line + k * next. `sums`,
/// `inverses`: where they are kept, or null.
template <class D>
HWY_INLINE void divide_by_sums_simd(D d, float* HWY_RESTRICT c, std::int64_t n, std::int64_t line,
                                    std::int64_t next, float eps, float* sums, float* inverses) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t j = 0; j < n; ++j) {
    auto sum = hn::Set(d, eps);
    for (std::int64_t k = 0; k < n; ++k) sum = hn::Add(sum, hn::Load(d, c + j * line + k * next));
    const auto inverse = hn::Div(hn::Set(d, 1.0F), sum);
    for (std::int64_t k = 0; k < n; ++k) {
      float* element = c + j * line + k * next;
      hn::Store(hn::Mul(hn::Load(d, element), inverse), d, element);
    }
    if (sums == nullptr) continue;
    hn::Store(sum, d, sums + j * lanes);
    hn::Store(inverse, d, inverses + j * lanes);
  }
}

/// c: n x n vectors, one matrix a lane. kTrains: the softmax multiplies by the inverse of its sum.
template <bool kTrains, class D>
HWY_INLINE void sinkhorn_simd(D d, float* HWY_RESTRICT c, std::int64_t n, int iterations, float eps,
                              const SinkhornSteps& kept = {}) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t j = 0; j < n; ++j) {
    float* row = c + j * n * lanes;
    auto largest = hn::Load(d, row);
    for (std::int64_t k = 1; k < n; ++k) largest = hn::Max(largest, hn::Load(d, row + k * lanes));
    auto sum = hn::Zero(d);
    for (std::int64_t k = 0; k < n; ++k) {
      const auto e = safe_exp(d, hn::Sub(hn::Load(d, row + k * lanes), largest));
      sum = hn::Add(sum, e);
      hn::Store(e, d, row + k * lanes);
    }
    const auto inverse = hn::Div(hn::Set(d, 1.0F), sum);
    for (std::int64_t k = 0; k < n; ++k) {
      const auto e = hn::Load(d, row + k * lanes);
      const auto soft = kTrains ? hn::Mul(e, inverse) : hn::Div(e, sum);
      if (kept.soft != nullptr) hn::Store(soft, d, kept.soft + (j * n + k) * lanes);
      hn::Store(hn::Add(soft, hn::Set(d, eps)), d, row + k * lanes);
    }
  }
  // Columns, then rows and columns in turns.
  for (int step = 0; step < 2 * iterations - 1; ++step) {
    const std::int64_t line = step % 2 == 0 ? lanes : n * lanes, next = step % 2 == 0 ? n * lanes : lanes;
    const bool keeps = kept.sums != nullptr;
    divide_by_sums_simd(d, c, n, line, next, eps, keeps ? kept.sums + step * n * lanes : nullptr,
                        keeps ? kept.inverses + step * n * lanes : nullptr);
  }
}

}  // namespace baleen::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // BALEEN_OPS_HC_PRE_HC_MIX_INL_H_
