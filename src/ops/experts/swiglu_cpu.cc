#include "numeric/bf16.h"
#include "numeric/simd_targets.h"
#include "ops/experts/swiglu.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/experts/swiglu_cpu.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "numeric/exp-inl.h"
#include "numeric/rounding-inl.h"
#include "numeric/vector_loop-inl.h"

HWY_BEFORE_NAMESPACE();
namespace baleen::HWY_NAMESPACE {
namespace {

template <bool kTrains>
HWY_INLINE void activate(const float* gate, const float* up, std::int64_t count, float limit, float weight,
                         bool rounds, float* out) {
  const float most = limit > 0 ? limit : std::numeric_limits<float>::infinity();
  for_each_vector(count, [=](auto d, std::int64_t i) HWY_ATTR {
    const auto bound = hn::Set(d, most);
    const auto one = hn::Set(d, 1.0F);
    const auto raw_gate = hn::LoadU(d, gate + i);
    const auto raw_up = hn::LoadU(d, up + i);
    // Comparisons rather than Min and Max, which would turn NaN into the bound.
    const auto g = hn::IfThenElse(hn::Gt(raw_gate, bound), bound, raw_gate);
    const auto below = hn::IfThenElse(hn::Gt(raw_up, bound), bound, raw_up);
    const auto v = hn::IfThenElse(hn::Lt(below, hn::Neg(bound)), hn::Neg(bound), below);
    hn::Vec<decltype(d)> silu;
    if constexpr (kTrains) {
      silu = hn::Mul(g, sigmoid_simd(d, g));
    } else {
      // Highway's Exp promises nothing above 104; at 88 the quotient has long vanished.
      const auto exponent = hn::IfThenElse(hn::Lt(g, hn::Set(d, -88.0F)), hn::Set(d, 88.0F), hn::Neg(g));
      silu = hn::Div(g, hn::Add(one, hn::Exp(d, exponent)));
    }
    const auto a = hn::Mul(hn::Set(d, weight), hn::Mul(silu, v));
    hn::StoreU(rounds ? round_bf16_simd(d, a) : a, d, out + i);
  });
}

}  // namespace

void swiglu(const float* gate, const float* up, std::int64_t count, float limit, float weight, bool rounds,
            float* out) {
  activate<false>(gate, up, count, limit, weight, rounds, out);
}
void swiglu_training(const float* gate, const float* up, std::int64_t count, float limit, float weight,
                     bool rounds, float* out) {
  activate<true>(gate, up, count, limit, weight, rounds, out);
}

}  // namespace baleen::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace baleen {

HWY_EXPORT(swiglu);
HWY_EXPORT(swiglu_training);

void swiglu_row(const float* gate, const float* up, std::int64_t count, float limit, float weight,
                bool rounds, float* out) {
  HWY_DYNAMIC_DISPATCH(swiglu)(gate, up, count, limit, weight, rounds, out);
}
void swiglu_training_row(const float* gate, const float* up, std::int64_t count, float limit, float weight,
                         bool rounds, float* out) {
  HWY_DYNAMIC_DISPATCH(swiglu_training)(gate, up, count, limit, weight, rounds, out);
}

template <>
void swiglu_forward(std::int64_t rows, std::int64_t width, const float* gate, const float* up,
                    const float* weights, float limit, bool rounds, float* a) {
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t at = row * width;
    swiglu_training_row(gate + at, up + at, width, limit, weights != nullptr ? weights[row] : 1.0F, rounds,
                        a + at);
  }
}

template <>
void swiglu_forward(std::int64_t rows, std::int64_t width, const double* gate, const double* up,
                    const double* weights, float limit, bool rounds, double* a) {
  for (std::int64_t i = 0; i < rows * width; ++i) {
    const double weight = weights != nullptr ? weights[i / width] : 1;
    const double value = swiglu_ref<double>(gate[i], up[i], limit, weight);
    a[i] = rounds ? round_bf16(static_cast<float>(value)) : value;
  }
}

}  // namespace baleen
#endif  // HWY_ONCE
