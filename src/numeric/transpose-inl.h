// Turns short runs of rows into lanes. Included once per instruction set (Highway).

#if defined(BALEEN_NUMERIC_TRANSPOSE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BALEEN_NUMERIC_TRANSPOSE_INL_H_
#undef BALEEN_NUMERIC_TRANSPOSE_INL_H_
#else
#define BALEEN_NUMERIC_TRANSPOSE_INL_H_
#endif

#include <hwy/highway.h>

#include <cstddef>

HWY_BEFORE_NAMESPACE();
namespace baleen::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// A vector whose b-th 128-bit block holds the four values at from + 4 b * stride.
template <class D, class T = hn::TFromD<D>>
HWY_INLINE hn::Vec<D> load_every_fourth_row(D d, const T* from, std::size_t stride) {
  if constexpr (hn::MaxLanes(D()) == 4) {
    return hn::LoadU(d, from);
  } else {
    const hn::Half<D> half;
    constexpr std::size_t kHalfLanes = hn::MaxLanes(hn::Half<D>());
    return hn::Combine(d, load_every_fourth_row(half, from + kHalfLanes * stride, stride),
                       load_every_fourth_row(half, from, stride));
  }
}

/// columns[i], lane l = from[l * stride + i] for i in 0..3: four neighbouring 32-bit values of as many rows
/// as lanes.
template <class D, class T = hn::TFromD<D>, class V = hn::Vec<D>>
HWY_INLINE void transpose_four(D d, const T* from, std::size_t stride, V& column0, V& column1, V& column2,
                               V& column3) {
  static_assert(sizeof(T) == 4);
  const hn::RepartitionToWide<D> d64;
  const V row0 = load_every_fourth_row(d, from, stride);
  const V row1 = load_every_fourth_row(d, from + stride, stride);
  const V row2 = load_every_fourth_row(d, from + 2 * stride, stride);
  const V row3 = load_every_fourth_row(d, from + 3 * stride, stride);
  const auto low01 = hn::BitCast(d64, hn::InterleaveLower(d, row0, row1));
  const auto low23 = hn::BitCast(d64, hn::InterleaveLower(d, row2, row3));
  const auto high01 = hn::BitCast(d64, hn::InterleaveUpper(d, row0, row1));
  const auto high23 = hn::BitCast(d64, hn::InterleaveUpper(d, row2, row3));
  column0 = hn::BitCast(d, hn::InterleaveLower(d64, low01, low23));
  column1 = hn::BitCast(d, hn::InterleaveUpper(d64, low01, low23));
  column2 = hn::BitCast(d, hn::InterleaveLower(d64, high01, high23));
  column3 = hn::BitCast(d, hn::InterleaveUpper(d64, high01, high23));
}

}  // namespace baleen::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // BALEEN_NUMERIC_TRANSPOSE_INL_H_
