#include "sampling/softmax_weights.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "sampling/softmax_weights.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// Highway wants this after highway.h, once per target.
#include <hwy/contrib/math/math-inl.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <limits>

HWY_BEFORE_NAMESPACE();
namespace baleen {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

void extremes_of(const float* HWY_RESTRICT logits, std::size_t size, LogitExtremes& extremes) {
  const hn::ScalableTag<float> d;
  const std::size_t lanes = hn::Lanes(d);
  auto max = hn::Set(d, -std::numeric_limits<float>::infinity());
  auto nan = hn::FirstN(d, 0);
  std::size_t i = 0;
  for (; i + lanes <= size; i += lanes) {
    const auto x = hn::LoadU(d, logits + i);
    const auto x_is_nan = hn::IsNaN(x);
    nan = hn::Or(nan, x_is_nan);
    max = hn::IfThenElse(x_is_nan, max, hn::Max(max, x));
  }
  extremes = {hn::GetLane(hn::MaxOfLanes(d, max)), !hn::AllFalse(d, nan)};
  for (; i < size; ++i) {
    extremes.has_nan = extremes.has_nan || std::isnan(logits[i]);
    if (logits[i] > extremes.max) extremes.max = logits[i];
  }
}

bool weights_of(const float* HWY_RESTRICT logits, std::size_t size, double max, double inverse_temperature,
                float lowest, double* HWY_RESTRICT weights) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<float, decltype(d)> d_float;
  const std::size_t lanes = hn::Lanes(d);
  const auto max_lanes = hn::Set(d, max), scale = hn::Set(d, inverse_temperature);
  const auto lowest_lanes = hn::Set(d, lowest);
  // exp(-800) is 0 in double; the bound keeps -infinity out of the range reduction.
  const auto underflow = hn::Set(d, -800.0);
  bool any = false;
  const auto store_weights = [&](const float* from, double* to) HWY_ATTR {
    const auto logit = hn::PromoteTo(d, hn::LoadU(d_float, from));
    const auto kept = hn::Ge(logit, lowest_lanes);
    if (hn::AllFalse(d, kept)) {
      hn::StoreU(hn::Zero(d), d, to);
      return;
    }
    any = true;
    const auto distance = hn::Mul(hn::Sub(logit, max_lanes), scale);
    hn::StoreU(hn::IfThenElseZero(kept, hn::Exp(d, hn::Max(distance, underflow))), d, to);
  };
  std::size_t i = 0;
  for (; i + lanes <= size; i += lanes) store_weights(logits + i, weights + i);
  if (i == size) return any;
  // The tail goes through the same vector code, so that a weight does not depend on where it stands.
  float last_logits[hn::MaxLanes(d)];
  double last_weights[hn::MaxLanes(d)];
  std::fill(std::copy(logits + i, logits + size, last_logits), std::end(last_logits), logits[i]);
  store_weights(last_logits, last_weights);
  std::copy(last_weights, last_weights + (size - i), weights + i);
  return any;
}

}  // namespace HWY_NAMESPACE
}  // namespace baleen
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace baleen {

HWY_EXPORT(extremes_of);
HWY_EXPORT(weights_of);

LogitExtremes logit_extremes(std::span<const float> logits) {
  LogitExtremes extremes;
  HWY_DYNAMIC_DISPATCH(extremes_of)(logits.data(), logits.size(), extremes);
  return extremes;
}

bool softmax_weights(std::span<const float> logits, float max, double temperature, float lowest,
                     std::span<double> weights) {
  return HWY_DYNAMIC_DISPATCH(weights_of)(logits.data(), logits.size(), max, 1.0 / temperature, lowest,
                                          weights.data());
}

double log_sum_exp(std::span<const float> logits, float max) {
  std::array<double, kWeightChunk> weights;
  std::array<double, 4> sums{};  // four chains of additions hide their latency
  while (!logits.empty()) {
    const std::size_t count = std::min(logits.size(), kWeightChunk);
    softmax_weights(logits.first(count), max, 1.0, -std::numeric_limits<float>::infinity(),
                    std::span(weights).first(count));
    for (std::size_t i = 0; i < count; ++i) sums[i % 4] += weights[i];
    logits = logits.subspan(count);
  }
  return static_cast<double>(max) + std::log((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

}  // namespace baleen
#endif  // HWY_ONCE
