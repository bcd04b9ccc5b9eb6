#include "numeric/row_products.h"

#include <algorithm>

#include "numeric/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "numeric/row_products.cc"
#include <hwy/foreach_target.h>
// Highway's headers come after foreach_target.h.
#include <hwy/highway.h>

#include "numeric/vector_loop-inl.h"

HWY_BEFORE_NAMESPACE();
namespace baleen::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using Tag = hn::ScalableTag<float>;

/// Rows at a time: kRows accumulators for each of kOthers, in the 16 registers of AVX2.
constexpr int kRows = 5;
constexpr int kOthers = 2;

template <int kA, int kB>
HWY_INLINE void dot_tile(const float* const* a, const float* const* b, std::int64_t count, float* products,
                         int stride) {
  const Tag d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  hn::Vec<Tag> sums[kA][kB];
  for (int i = 0; i < kA; ++i)
    for (int j = 0; j < kB; ++j) sums[i][j] = hn::Zero(d);
  std::int64_t at = 0;
  for (; at + lanes <= count; at += lanes) {
    hn::Vec<Tag> right[kB];
    for (int j = 0; j < kB; ++j) right[j] = hn::LoadU(d, b[j] + at);
    for (int i = 0; i < kA; ++i) {
      const auto left = hn::LoadU(d, a[i] + at);
      for (int j = 0; j < kB; ++j) sums[i][j] = hn::MulAdd(left, right[j], sums[i][j]);
    }
  }
  for (int i = 0; i < kA; ++i) {
    for (int j = 0; j < kB; ++j) {
      float sum = hn::GetLane(hn::SumOfLanes(d, sums[i][j]));
      for (std::int64_t rest = at; rest < count; ++rest) sum += a[i][rest] * b[j][rest];
      products[i * stride + j] = sum;
    }
  }
}

/// The tile of `num_a` <= kA rows.
template <int kA, int kB>
HWY_INLINE void dot_rows(int num_a, const float* const* a, const float* const* b, std::int64_t count,
                         float* products, int stride) {
  if (num_a == kA) return dot_tile<kA, kB>(a, b, count, products, stride);
  if constexpr (kA > 1) dot_rows<kA - 1, kB>(num_a, a, b, count, products, stride);
}

void dot_all_simd(int num_a, const float* const* a, int num_b, const float* const* b, std::int64_t count,
                  float* products) {
  for (int i = 0; i < num_a; i += kRows) {
    const int rows = std::min(kRows, num_a - i);
    int j = 0;
    for (; j + kOthers <= num_b; j += kOthers)
      dot_rows<kRows, kOthers>(rows, a + i, b + j, count, products + i * num_b + j, num_b);
    for (; j < num_b; ++j) dot_rows<kRows, 1>(rows, a + i, b + j, count, products + i * num_b + j, num_b);
  }
}

template <int kOut, class D>
HWY_INLINE void combine_at(D d, float* const* out, int num_in, const float* const* in, const float* weights,
                           std::int64_t at, bool accumulate) {
  hn::Vec<D> sums[kOut];
  for (int o = 0; o < kOut; ++o) sums[o] = accumulate ? hn::LoadU(d, out[o] + at) : hn::Zero(d);
  for (int i = 0; i < num_in; ++i) {
    const auto value = hn::LoadU(d, in[i] + at);
    for (int o = 0; o < kOut; ++o) sums[o] = hn::MulAdd(hn::Set(d, weights[o * num_in + i]), value, sums[o]);
  }
  for (int o = 0; o < kOut; ++o) hn::StoreU(sums[o], d, out[o] + at);
}

template <int kOut>
HWY_INLINE void combine_rows(int num_out, float* const* out, int num_in, const float* const* in,
                             const float* weights, std::int64_t count, bool accumulate) {
  if (num_out == kOut) {
    for_each_vector(count, [=](auto d, std::int64_t at)
                               HWY_ATTR { combine_at<kOut>(d, out, num_in, in, weights, at, accumulate); });
    return;
  }
  if constexpr (kOut > 1) combine_rows<kOut - 1>(num_out, out, num_in, in, weights, count, accumulate);
}

void combine_simd(int num_out, float* const* out, int num_in, const float* const* in, const float* weights,
                  std::int64_t count, bool accumulate) {
  for (int o = 0; o < num_out; o += kRows) {
    combine_rows<kRows>(std::min(kRows, num_out - o), out + o, num_in, in, weights + o * num_in, count,
                        accumulate);
  }
}

}  // namespace
}  // namespace baleen::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace baleen {

HWY_EXPORT(dot_all_simd);
HWY_EXPORT(combine_simd);

namespace row_math {

void dot_all(int num_a, const float* const* a, int num_b, const float* const* b, std::int64_t count,
             float* products) {
  HWY_DYNAMIC_DISPATCH(dot_all_simd)(num_a, a, num_b, b, count, products);
}

void combine(int num_out, float* const* out, int num_in, const float* const* in, const float* weights,
             std::int64_t count, bool accumulate) {
  HWY_DYNAMIC_DISPATCH(combine_simd)(num_out, out, num_in, in, weights, count, accumulate);
}

}  // namespace row_math
}  // namespace baleen
#endif
