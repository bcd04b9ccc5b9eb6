// Root-mean-square normalisation, rotation and exponential as cache rows and the softmax need them, SIMD.
// Included once per instruction set (Highway).

#if defined(BALEEN_NUMERIC_NORMALISE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BALEEN_NUMERIC_NORMALISE_INL_H_
#undef BALEEN_NUMERIC_NORMALISE_INL_H_
#else
#define BALEEN_NUMERIC_NORMALISE_INL_H_
#endif

#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include <cmath>
#include <cstddef>

#include "numeric/rounding-inl.h"

HWY_BEFORE_NAMESPACE();
namespace baleen::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// y = weight * (x / sqrt(mean(x^2) + eps)), rounded to BF16 if `round`. `size` a multiple of the vector length; y may
/// be x. The square sum has one order, whoever calls.
template <class D>
HWY_INLINE void NormaliseRow(D d, const float* x, const float* weight, float eps, bool round, std::size_t size, float* y) {
  auto squares = hn::Zero(d);
  for (std::size_t i = 0; i < size; i += hn::Lanes(d)) {
    const auto v = hn::LoadU(d, x + i);
    squares = hn::MulAdd(v, v, squares);
  }
  const float mean = hn::GetLane(hn::SumOfLanes(d, squares)) / static_cast<float>(size);
  const auto inverse = hn::Set(d, 1.0F / std::sqrt(mean + eps));
  for (std::size_t i = 0; i < size; i += hn::Lanes(d)) {
    const auto v = hn::Mul(hn::LoadU(d, weight + i), hn::Mul(hn::LoadU(d, x + i), inverse));
    hn::StoreU(round ? RoundBf16(d, v) : v, d, y + i);
  }
}

/// values <- bf(values), if `round`.
template <class D>
HWY_INLINE void RoundRow(D d, bool round, std::size_t size, float* values) {
  if (!round) return;
  for (std::size_t i = 0; i < size; i += hn::Lanes(d)) hn::StoreU(RoundBf16(d, hn::LoadU(d, values + i)), d, values + i);
}

/// e^x, at most one unit in the last place off for x <= 0; NaN stays NaN (Highway's alone turns it into 0).
template <class D, class V = hn::Vec<D>>
HWY_INLINE V ExpOrNaN(D d, V x) {
  return hn::IfThenElse(hn::IsNaN(x), x, hn::Exp(d, x));
}

}  // namespace baleen::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // BALEEN_NUMERIC_NORMALISE_INL_H_
