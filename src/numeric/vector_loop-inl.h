// Loops over arrays of any length: whole vectors, then the remainder one value at a time through the same
// operations. Included once per instruction set (Highway).

#if defined(BALEEN_NUMERIC_VECTOR_LOOP_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BALEEN_NUMERIC_VECTOR_LOOP_INL_H_
#undef BALEEN_NUMERIC_VECTOR_LOOP_INL_H_
#else
#define BALEEN_NUMERIC_VECTOR_LOOP_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace baleen::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

/// body(d, i) for vectors of floats that cover [0, count).
template <class Body>
HWY_INLINE void for_each_vector(std::int64_t count, const Body& body) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) body(d, i);
  const hn::CappedTag<float, 1> one;
  for (; i < count; ++i) body(one, i);
}

/// The sum of term(d, i) over [0, count), always in the same order for the same count. Four accumulators
/// cover the latency of the additions; they are folded every kFold rounds, because one long chain of float32
/// additions would lose a digit on the widest rows (28,672 values).
template <class Term>
HWY_INLINE float sum_over_vectors(std::int64_t count, const Term& term) {
  constexpr std::int64_t kFold = 32;
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  auto total = hn::Zero(d);
  std::int64_t i = 0;
  while (i + 4 * lanes <= count) {
    const std::int64_t rounds = HWY_MIN(kFold, (count - i) / (4 * lanes));
    auto sum0 = hn::Zero(d);
    auto sum1 = hn::Zero(d);
    auto sum2 = hn::Zero(d);
    auto sum3 = hn::Zero(d);
    for (const std::int64_t end = i + rounds * 4 * lanes; i < end; i += 4 * lanes) {
      sum0 = hn::Add(sum0, term(d, i));
      sum1 = hn::Add(sum1, term(d, i + lanes));
      sum2 = hn::Add(sum2, term(d, i + 2 * lanes));
      sum3 = hn::Add(sum3, term(d, i + 3 * lanes));
    }
    total = hn::Add(total, hn::Add(hn::Add(sum0, sum1), hn::Add(sum2, sum3)));
  }
  for (; i + lanes <= count; i += lanes) total = hn::Add(total, term(d, i));
  float sum = hn::GetLane(hn::SumOfLanes(d, total));
  const hn::CappedTag<float, 1> one;
  for (; i < count; ++i) sum += hn::GetLane(term(one, i));
  return sum;
}

HWY_INLINE float sum_of_squares(const float* x, std::int64_t count) {
  return sum_over_vectors(count, [x](auto d, std::int64_t i) HWY_ATTR {
    const auto v = hn::LoadU(d, x + i);
    return hn::Mul(v, v);
  });
}

}  // namespace baleen::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // BALEEN_NUMERIC_VECTOR_LOOP_INL_H_
