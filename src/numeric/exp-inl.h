// Exponentials on vectors: Highway's polynomials (within an ulp or two) with the ends of the range put right.
// Included once per instruction set (Highway).

#if defined(BALEEN_NUMERIC_EXP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BALEEN_NUMERIC_EXP_INL_H_
#undef BALEEN_NUMERIC_EXP_INL_H_
#else
#define BALEEN_NUMERIC_EXP_INL_H_
#endif

#include <hwy/highway.h>

#include <hwy/contrib/math/math-inl.h>

HWY_BEFORE_NAMESPACE();
namespace baleen::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// e^x. NaN stays NaN (hn::Exp makes it 0), above 88 the result stays at e^88; below -104 it is 0.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V safe_exp(D d, V x) {
  return hn::IfThenElse(hn::IsNaN(x), x, hn::Exp(d, hn::Min(x, hn::Set(d, 88.0F))));
}

/// 1 / (1 + e^-x)
template <class D, class V = hn::Vec<D>>
HWY_INLINE V sigmoid_simd(D d, V x) {
  const V one = hn::Set(d, 1.0F);
  return hn::Div(one, hn::Add(one, safe_exp(d, hn::Neg(x))));
}

/// ln(1 + e^x), x itself above 20 (the threshold of the released code's library). NaN stays NaN.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V softplus_simd(D d, V x) {
  const V threshold = hn::Set(d, 20.0F);
  const V curved = hn::Log1p(d, hn::Exp(d, hn::Min(x, threshold)));
  return hn::IfThenElse(hn::Le(x, threshold), curved, x);
}

}  // namespace baleen::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // BALEEN_NUMERIC_EXP_INL_H_
