// SIMD form of hadamard.h. Included once per instruction set (Highway).

#if defined(BALEEN_NUMERIC_HADAMARD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BALEEN_NUMERIC_HADAMARD_INL_H_
#undef BALEEN_NUMERIC_HADAMARD_INL_H_
#else
#define BALEEN_NUMERIC_HADAMARD_INL_H_
#endif

#include <hwy/highway.h>

#include <cmath>
#include <cstddef>
#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace baleen::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// One butterfly inside a vector: lanes `kStride` apart become their sum and their difference.
template <std::size_t kStride, class D, class V = hn::Vec<D>>
HWY_INLINE V butterfly_in_vector(D d, V v) {
  const hn::RebindToSigned<D> di;
  const auto lane = hn::Iota(di, 0);
  const auto stride = hn::Set(di, static_cast<std::int32_t>(kStride));
  const V partner = hn::TableLookupLanes(v, hn::IndicesFromVec(d, hn::Xor(lane, stride)));
  const auto upper = hn::RebindMask(d, hn::Eq(hn::And(lane, stride), stride));
  return hn::Add(partner, hn::IfThenElse(upper, hn::Neg(v), v));
}

/// In place, float32 throughout; `size` a power of two and at least the vector length.
template <class D>
HWY_INLINE void hadamard_transform_simd(D d, float* values, std::size_t size) {
  constexpr std::size_t kLanes = hn::MaxLanes(D());
  const auto factor = hn::Set(d, static_cast<float>(1.0 / std::sqrt(static_cast<double>(size))));
  for (std::size_t i = 0; i < size; i += kLanes) {
    auto v = hn::LoadU(d, values + i);
    v = butterfly_in_vector<1>(d, v);
    v = butterfly_in_vector<2>(d, v);
    if constexpr (kLanes > 4) v = butterfly_in_vector<4>(d, v);
    if constexpr (kLanes > 8) v = butterfly_in_vector<8>(d, v);
    hn::StoreU(v, d, values + i);
  }
  for (std::size_t stride = kLanes; stride < size; stride *= 2) {
    for (std::size_t i = 0; i < size; i += 2 * stride) {
      for (std::size_t j = i; j < i + stride; j += kLanes) {
        const auto a = hn::LoadU(d, values + j);
        const auto b = hn::LoadU(d, values + j + stride);
        hn::StoreU(hn::Add(a, b), d, values + j);
        hn::StoreU(hn::Sub(a, b), d, values + j + stride);
      }
    }
  }
  for (std::size_t i = 0; i < size; i += kLanes)
    hn::StoreU(hn::Mul(hn::LoadU(d, values + i), factor), d, values + i);
}

}  // namespace baleen::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // BALEEN_NUMERIC_HADAMARD_INL_H_
