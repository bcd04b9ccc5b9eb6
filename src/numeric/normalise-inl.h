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
HWY_INLINE void RoundRow(float* values, std::int64_t count) {
  ForEachVector(count, [&](auto d, std::int64_t i)
                           HWY_ATTR { hn::StoreU(RoundBf16(d, hn::LoadU(d, values + i)), d, values + i); });
}

/// y = weight * (x / sqrt(mean(x^2) + eps)), rounded to BF16 if `round`; y may be x.
HWY_INLINE void NormaliseRow(const float* x, const float* weight, float eps, bool round, std::int64_t count,
                             float* y) {
  const float inverse = 1.0F / std::sqrt(SumOfSquares(x, count) / static_cast<float>(count) + eps);
  ForEachVector(count, [&](auto d, std::int64_t i) HWY_ATTR {
    const auto scaled = hn::Mul(hn::LoadU(d, x + i), hn::Set(d, inverse));
    hn::StoreU(hn::Mul(hn::LoadU(d, weight + i), scaled), d, y + i);
  });
  if (round) RoundRow(y, count);
}

}  // namespace baleen::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // BALEEN_NUMERIC_NORMALISE_INL_H_
