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

float Dot(const float* x, const float* y, std::int64_t count) {
  return SumOverVectors(count, [x, y](auto d, std::int64_t i)
                                   HWY_ATTR { return hn::Mul(hn::LoadU(d, x + i), hn::LoadU(d, y + i)); });
}

float Dot3(const float* w, const float* x, const float* y, std::int64_t count) {
  return SumOverVectors(count, [w, x, y](auto d, std::int64_t i) HWY_ATTR {
    return hn::Mul(hn::Mul(hn::LoadU(d, w + i), hn::LoadU(d, x + i)), hn::LoadU(d, y + i));
  });
}

void AddScaled(float alpha, const float* x, float* y, std::int64_t count) {
  ForEachVector(count, [=](auto d, std::int64_t i) HWY_ATTR {
    hn::StoreU(hn::MulAdd(hn::Set(d, alpha), hn::LoadU(d, x + i), hn::LoadU(d, y + i)), d, y + i);
  });
}

void Scale(float alpha, float* x, std::int64_t count) {
  ForEachVector(count, [=](auto d, std::int64_t i) HWY_ATTR {
    hn::StoreU(hn::Mul(hn::Set(d, alpha), hn::LoadU(d, x + i)), d, x + i);
  });
}

float ExpAndSum(float shift, float* x, std::int64_t count) {
  return SumOverVectors(count, [=](auto d, std::int64_t i) HWY_ATTR {
    const auto e = SafeExp(d, hn::Sub(hn::LoadU(d, x + i), hn::Set(d, shift)));
    hn::StoreU(e, d, x + i);
    return e;
  });
}

void SigmoidOf(float* x, std::int64_t count) {
  ForEachVector(
      count, [=](auto d, std::int64_t i) HWY_ATTR { hn::StoreU(Sigmoid(d, hn::LoadU(d, x + i)), d, x + i); });
}

}  // namespace
}  // namespace baleen::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace baleen {

HWY_EXPORT(Dot);
HWY_EXPORT(Dot3);
HWY_EXPORT(AddScaled);
HWY_EXPORT(Scale);
HWY_EXPORT(ExpAndSum);
HWY_EXPORT(SigmoidOf);

namespace row_math {

float dot(const float* x, const float* y, std::int64_t count) {
  return HWY_DYNAMIC_DISPATCH(Dot)(x, y, count);
}

float dot(const float* w, const float* x, const float* y, std::int64_t count) {
  return HWY_DYNAMIC_DISPATCH(Dot3)(w, x, y, count);
}

void add_scaled(float alpha, const float* x, float* y, std::int64_t count) {
  HWY_DYNAMIC_DISPATCH(AddScaled)(alpha, x, y, count);
}

void scale(float alpha, float* x, std::int64_t count) { HWY_DYNAMIC_DISPATCH(Scale)(alpha, x, count); }

float exp_and_sum(float shift, float* x, std::int64_t count) {
  return HWY_DYNAMIC_DISPATCH(ExpAndSum)(shift, x, count);
}

void sigmoid(float* x, std::int64_t count) { HWY_DYNAMIC_DISPATCH(SigmoidOf)(x, count); }

}  // namespace row_math
}  // namespace baleen
#endif
