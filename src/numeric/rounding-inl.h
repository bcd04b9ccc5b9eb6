// SIMD forms of the number formats' roundings, equal to the scalar ones in bf16.h, e4m3.h, e2m1.h to the bit.
// Included once per instruction set (Highway).

#if defined(BALEEN_NUMERIC_ROUNDING_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BALEEN_NUMERIC_ROUNDING_INL_H_
#undef BALEEN_NUMERIC_ROUNDING_INL_H_
#else
#define BALEEN_NUMERIC_ROUNDING_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>

#include "numeric/block_scale.h"
#include "numeric/e8m0.h"

HWY_BEFORE_NAMESPACE();
namespace baleen::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// Rounds the magnitude to `kept` mantissa bits, ties to even; NaN and infinity come out as garbage.
template <int kKept, class D, class V = hn::Vec<D>>
HWY_INLINE V round_mantissa(D d, V v) {
  const hn::RebindToUnsigned<D> du;
  constexpr int kDropped = 23 - kKept;
  const auto bits = hn::BitCast(du, v);
  const auto odd = hn::And(hn::ShiftRight<kDropped>(bits), hn::Set(du, 1u));
  const auto rounded = hn::Add(hn::Add(bits, odd), hn::Set(du, (1u << (kDropped - 1)) - 1u));
  return hn::BitCast(d, hn::AndNot(hn::Set(du, (1u << kDropped) - 1u), rounded));
}

template <class D, class V = hn::Vec<D>>
HWY_INLINE V round_bf16_simd(D d, V v) {
  const hn::RebindToUnsigned<D> du;
  const auto quiet = hn::And(hn::Or(hn::BitCast(du, v), hn::Set(du, 0x00400000u)), hn::Set(du, 0xFFFF0000u));
  return hn::IfThenElse(hn::IsNaN(v), hn::BitCast(d, quiet), round_mantissa<7>(d, v));
}

/// Nearest e4m3 value of v, saturating at +-448; NaN stays NaN.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V round_e4m3(D d, V v) {
  const V limit = hn::Set(d, 448.0F);
  const V clamped = hn::IfThenElse(hn::IsNaN(v), v, hn::Max(hn::Min(v, limit), hn::Neg(limit)));
  const V magic = hn::Set(d, 0x1.8p14F);  // one unit in its last place is the subnormal step 2^-9
  const V subnormal = hn::CopySign(hn::Sub(hn::Add(hn::Abs(clamped), magic), magic), clamped);
  const V normal = hn::IfThenElse(hn::IsNaN(v), v, round_mantissa<3>(d, clamped));
  return hn::IfThenElse(hn::Lt(hn::Abs(clamped), hn::Set(d, 0x1p-6F)), subnormal, normal);
}

/// Nearest e2m1 value of v, saturating at +-6; v is not NaN.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V round_e2m1(D d, V v) {
  const V limit = hn::Set(d, 6.0F);
  const V clamped = hn::Max(hn::Min(v, limit), hn::Neg(limit));
  const V magic = hn::Set(d, 0x1.8p22F);  // one unit in its last place is the step 0.5 below 1
  const V small = hn::CopySign(hn::Sub(hn::Add(hn::Abs(clamped), magic), magic), clamped);
  return hn::IfThenElse(hn::Lt(hn::Abs(clamped), hn::Set(d, 1.0F)), small, round_mantissa<1>(d, clamped));
}

/// Largest magnitude of a block; NaN is passed over. `count` is a multiple of the vector length.
template <class D>
HWY_INLINE float absolute_maximum_simd(D d, const float* values, std::size_t count) {
  auto largest = hn::Zero(d);
  for (std::size_t i = 0; i < count; i += hn::Lanes(d)) {
    const auto v = hn::Abs(hn::LoadU(d, values + i));
    largest = hn::Max(largest, hn::IfThenElse(hn::IsNaN(v), hn::Zero(d), v));
  }
  return hn::GetLane(hn::Min(hn::MaxOfLanes(d, largest), hn::Set(d, 0x1p127F)));
}

/// to[i] = e4m3(from[i] / s) * s, one block; `count` a multiple of the vector length; to may be from.
template <class D>
HWY_INLINE void simulate_fp8_block(D d, const float* from, float* to, std::size_t count) {
  const float scale = e8m0_to_float(fp8_scale_code(absolute_maximum_simd(d, from, count)));
  const auto multiply = hn::Set(d, scale);
  const auto divide = hn::Set(d, 1.0F / scale);
  for (std::size_t i = 0; i < count; i += hn::Lanes(d)) {
    hn::StoreU(hn::Mul(round_e4m3(d, hn::Mul(hn::LoadU(d, from + i), divide)), multiply), d, to + i);
  }
}

/// The same of groups of `group` values each, `count` in all, multiples of the vector length.
template <class D>
HWY_INLINE void simulate_fp8_groups(D d, const float* from, float* to, std::int64_t count,
                                    std::int64_t group) {
  for (std::int64_t i = 0; i < count; i += group)
    simulate_fp8_block(d, from + i, to + i, static_cast<std::size_t>(group));
}

/// One block with e2m1.
template <class D>
HWY_INLINE void simulate_fp4_block(D d, const float* from, float* to, std::size_t count) {
  const float scale = e8m0_to_float(fp4_scale_code(absolute_maximum_simd(d, from, count)));
  const auto multiply = hn::Set(d, scale);
  const auto divide = hn::Set(d, 1.0F / scale);
  for (std::size_t i = 0; i < count; i += hn::Lanes(d)) {
    hn::StoreU(hn::Mul(round_e2m1(d, hn::Mul(hn::LoadU(d, from + i), divide)), multiply), d, to + i);
  }
}

}  // namespace baleen::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // BALEEN_NUMERIC_ROUNDING_INL_H_
