#include "numeric/row_math.h"

#include "numeric/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "numeric/row_math.cc"
#include <hwy/foreach_target.h>
// Highway's headers come after foreach_target.h.
#include <hwy/highway.h>

#include "numeric/exp-inl.h"
#include "numeric/vector_loop-inl.h"

HWY_BEFORE_NAMESPACE();
namespace baleen::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

float dot_simd(const float* x, const float* y, std::int64_t count) {
  return sum_over_vectors(count, [x, y](auto d, std::int64_t i)
                                     HWY_ATTR { return hn::Mul(hn::LoadU(d, x + i), hn::LoadU(d, y + i)); });
}

float dot_of_three(const float* w, const float* x, const float* y, std::int64_t count) {
  return sum_over_vectors(count, [w, x, y](auto d, std::int64_t i) HWY_ATTR {
    return hn::Mul(hn::Mul(hn::LoadU(d, w + i), hn::LoadU(d, x + i)), hn::LoadU(d, y + i));
  });
}

void add_scaled_simd(float alpha, const float* x, float* y, std::int64_t count) {
  for_each_vector(count, [=](auto d, std::int64_t i) HWY_ATTR {
    hn::StoreU(hn::MulAdd(hn::Set(d, alpha), hn::LoadU(d, x + i), hn::LoadU(d, y + i)), d, y + i);
  });
}

void scale_simd(float alpha, float* x, std::int64_t count) {
  for_each_vector(count, [=](auto d, std::int64_t i) HWY_ATTR {
    hn::StoreU(hn::Mul(hn::Set(d, alpha), hn::LoadU(d, x + i)), d, x + i);
  });
}

float exp_and_sum_simd(float shift, float* x, std::int64_t count) {
  return sum_over_vectors(count, [=](auto d, std::int64_t i) HWY_ATTR {
    const auto e = safe_exp(d, hn::Sub(hn::LoadU(d, x + i), hn::Set(d, shift)));
    hn::StoreU(e, d, x + i);
    return e;
  });
}

void sigmoid_of(float* x, std::int64_t count) {
  for_each_vector(count, [=](auto d, std::int64_t i)
                             HWY_ATTR { hn::StoreU(sigmoid_simd(d, hn::LoadU(d, x + i)), d, x + i); });
}

}  // namespace
}  // namespace baleen::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace baleen {

HWY_EXPORT(dot_simd);
HWY_EXPORT(dot_of_three);
HWY_EXPORT(add_scaled_simd);
HWY_EXPORT(scale_simd);
HWY_EXPORT(exp_and_sum_simd);
HWY_EXPORT(sigmoid_of);

namespace row_math {

float dot(const float* x, const float* y, std::int64_t count) {
  return HWY_DYNAMIC_DISPATCH(dot_simd)(x, y, count);
}

float dot(const float* w, const float* x, const float* y, std::int64_t count) {
  return HWY_DYNAMIC_DISPATCH(dot_of_three)(w, x, y, count);
}

void add_scaled(float alpha, const float* x, float* y, std::int64_t count) {
  HWY_DYNAMIC_DISPATCH(add_scaled_simd)(alpha, x, y, count);
}

void scale(float alpha, float* x, std::int64_t count) { HWY_DYNAMIC_DISPATCH(scale_simd)(alpha, x, count); }

float exp_and_sum(float shift, float* x, std::int64_t count) {
  return HWY_DYNAMIC_DISPATCH(exp_and_sum_simd)(shift, x, count);
}

void sigmoid(float* x, std::int64_t count) { HWY_DYNAMIC_DISPATCH(sigmoid_of)(x, count); }

}  // namespace row_math
}  // namespace baleen
#endif
