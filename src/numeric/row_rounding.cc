#include "numeric/row_rounding.h"

#include <algorithm>
#include <cstdint>

#include "numeric/hadamard.h"
#include "numeric/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "numeric/row_rounding.cc"
#include <hwy/foreach_target.h>
// Highway's headers come after foreach_target.h.
#include <hwy/highway.h>

#include "numeric/hadamard-inl.h"
#include "numeric/rounding-inl.h"
#include "numeric/vector_loop-inl.h"

HWY_BEFORE_NAMESPACE();
namespace baleen::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

void to_bf16_simd(float* x, std::int64_t count) {
  for_each_vector(count, [=](auto d, std::int64_t i)
                             HWY_ATTR { hn::StoreU(round_bf16_simd(d, hn::LoadU(d, x + i)), d, x + i); });
}

/// `count` is a multiple of the vector length.
void to_fp8_simd(float* x, std::int64_t count) {
  simulate_fp8_block(hn::ScalableTag<float>(), x, x, static_cast<std::size_t>(count));
}

void to_fp4_simd(float* x, std::int64_t count) {
  simulate_fp4_block(hn::ScalableTag<float>(), x, x, static_cast<std::size_t>(count));
}

void hadamard_simd(float* x, std::int64_t count) {
  hadamard_transform_simd(hn::ScalableTag<float>(), x, static_cast<std::size_t>(count));
}

}  // namespace
}  // namespace baleen::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace baleen {

HWY_EXPORT(to_bf16_simd);
HWY_EXPORT(to_fp8_simd);
HWY_EXPORT(to_fp4_simd);
HWY_EXPORT(hadamard_simd);

namespace row_rounding {
namespace {

constexpr std::size_t kMaxLanes = 16;

/// simd(first, count) of each block; scalar(block) of a last one that is no multiple of the vector length.
template <class Simd, class Scalar>
void for_each_block(std::span<float> values, int block, const Simd& simd, const Scalar& scalar) {
  for (std::size_t begin = 0; begin < values.size(); begin += static_cast<std::size_t>(block)) {
    const auto part = values.subspan(begin, std::min(values.size() - begin, static_cast<std::size_t>(block)));
    if (part.size() % kMaxLanes == 0) {
      simd(part.data(), static_cast<std::int64_t>(part.size()));
    } else {
      scalar(part, block);
    }
  }
}

}  // namespace

void to_bf16(std::span<float> values) {
  HWY_DYNAMIC_DISPATCH(to_bf16_simd)(values.data(), static_cast<std::int64_t>(values.size()));
}

void to_fp8(std::span<float> values, int block) {
  for_each_block(values, block, HWY_DYNAMIC_DISPATCH(to_fp8_simd), simulate_fp8);
}

void to_fp4(std::span<float> values, int block) {
  for_each_block(values, block, HWY_DYNAMIC_DISPATCH(to_fp4_simd), simulate_fp4);
}

void hadamard(std::span<float> values) {
  if (values.size() < kMaxLanes) return hadamard_transform(values);
  HWY_DYNAMIC_DISPATCH(hadamard_simd)(values.data(), static_cast<std::int64_t>(values.size()));
}

}  // namespace row_rounding
}  // namespace baleen
#endif
