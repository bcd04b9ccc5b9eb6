// SIMD quantisation of indexer vectors, equal to index_key.h and block_scale.h to the bit. Included once per
// instruction set (Highway).

#if defined(BALEEN_NUMERIC_INDEX_KEY_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BALEEN_NUMERIC_INDEX_KEY_INL_H_
#undef BALEEN_NUMERIC_INDEX_KEY_INL_H_
#else
#define BALEEN_NUMERIC_INDEX_KEY_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>

#include "numeric/block_scale.h"
#include "numeric/e8m0.h"
#include "numeric/rounding-inl.h"

HWY_BEFORE_NAMESPACE();
namespace baleen::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// to[i] = 2 * e2m1(values[i] / scale), an integer of magnitude 0, 1, 2, 3, 4, 6, 8 or 12, for one block of
/// 32; returns the scale's e8m0 code. NaN counts as zero.
template <class D>
HWY_INLINE std::uint8_t quantise_fp4_doubled(D d, const float* values, std::int8_t* to) {
  const hn::Rebind<std::int8_t, D> d8;
  const hn::RebindToSigned<D> di;
  const std::uint8_t code = fp4_scale_code(absolute_maximum_simd(d, values, kIndexerGroup));
  const auto inverse = hn::Set(d, 1.0F / e8m0_to_float(code));
  for (std::size_t i = 0; i < kIndexerGroup; i += hn::Lanes(d)) {
    const auto v = hn::LoadU(d, values + i);
    const auto scaled = hn::Mul(hn::IfThenElse(hn::IsNaN(v), hn::Zero(d), v), inverse);
    const auto doubled = hn::Mul(round_e2m1(d, scaled), hn::Set(d, 2.0F));
    hn::StoreU(hn::DemoteTo(d8, hn::ConvertTo(di, doubled)), d8, to + i);
  }
  return code;
}

}  // namespace baleen::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // BALEEN_NUMERIC_INDEX_KEY_INL_H_
