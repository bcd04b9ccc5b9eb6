// Root-mean-square normalisation of a row. Included once per instruction set (Highway).

#if defined(BALEEN_NUMERIC_NORMALISE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BALEEN_NUMERIC_NORMALISE_INL_H_
#undef BALEEN_NUMERIC_NORMALISE_INL_H_
#else
#define BALEEN_NUMERIC_NORMALISE_INL_H_
#endif

#include <hwy/highway.h>

#include <cmath>
#include <cstdint>

#include "numeric/rounding-inl.h"
#include "numeric/vector_loop-inl.h"

HWY_BEFORE_NAMESPACE();
namespace baleen::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// values <- bf(values)
HWY_INLINE void round_row(float* values, std::int64_t count) {
  for_each_vector(count, [&](auto d, std::int64_t i) HWY_ATTR {
    hn::StoreU(round_bf16_simd(d, hn::LoadU(d, values + i)), d, values + i);
  });
}

/// 1 / sqrt(mean(x^2) + eps)
HWY_INLINE float inverse_rms_simd(const float* x, std::int64_t count, float eps) {
  return 1.0F / std::sqrt(sum_of_squares(x, count) / static_cast<float>(count) + eps);
}

/// y = weight * (x * factor), without weight if !kWeight, rounded to BF16 if kRound; y may be x.
template <bool kWeight, bool kRound>
HWY_INLINE void scale_row(const float* x, const float* weight, float factor, std::int64_t count, float* y) {
  for_each_vector(count, [&](auto d, std::int64_t i) HWY_ATTR {
    auto v = hn::Mul(hn::LoadU(d, x + i), hn::Set(d, factor));
    if constexpr (kWeight) v = hn::Mul(hn::LoadU(d, weight + i), v);
    if constexpr (kRound) v = round_bf16_simd(d, v);
    hn::StoreU(v, d, y + i);
  });
}

/// y = weight * (x / sqrt(mean(x^2) + eps)), rounded to BF16 if `round`; y may be x.
HWY_INLINE void normalise_row(const float* x, const float* weight, float eps, bool round, std::int64_t count,
                              float* y) {
  const float inverse = inverse_rms_simd(x, count, eps);
  if (round) return scale_row<true, true>(x, weight, inverse, count, y);
  scale_row<true, false>(x, weight, inverse, count, y);
}

}  // namespace baleen::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // BALEEN_NUMERIC_NORMALISE_INL_H_
