// Two stages: the products with `fn` as a matrix product over all tokens, then the rest token by token,
// except that the small arithmetic (sigmoids, Sinkhorn) runs on a group of tokens at once, one a lane.
// Lanes do not meet, so a token's results do not depend on its group; and with every lane a token, no step
// of Sinkhorn shuffles.

#include <algorithm>

#include "numeric/simd_targets.h"
#include "ops/hc_pre/hc_mix.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/hc_pre/hc_pre_cpu.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "numeric/exp-inl.h"
#include "ops/hc_pre/hc_mix-inl.h"

HWY_BEFORE_NAMESPACE();
namespace baleen::HWY_NAMESPACE {
namespace {

// Eight lanes, although there may be sixteen: decode fills one, and wider divisions take twice the time.
using TokenTag = hn::CappedTag<float, 8>;

/// c[j][k] <- c[j][k] / (sum_k c[j][k] + eps) with element (j, k) at c + j * stride + k * step.
HWY_INLINE void divide_by_sums_simd(float* HWY_RESTRICT c, std::int64_t n, std::int64_t stride,
                                    std::int64_t step, float eps) {
  const TokenTag d;
  for (std::int64_t j = 0; j < n; ++j) {
    auto sum = hn::Set(d, eps);
    for (std::int64_t k = 0; k < n; ++k) sum = hn::Add(sum, hn::Load(d, c + j * stride + k * step));
    const auto inverse = hn::Div(hn::Set(d, 1.0F), sum);
    for (std::int64_t k = 0; k < n; ++k) {
      float* element = c + j * stride + k * step;
      hn::Store(hn::Mul(hn::Load(d, element), inverse), d, element);
    }
  }
}

/// c: n x n vectors, one matrix a lane.
HWY_INLINE void sinkhorn_simd(float* HWY_RESTRICT c, std::int64_t n, int iterations, float eps) {
  const TokenTag d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t j = 0; j < n; ++j) {
    float* row = c + j * n * lanes;
    auto largest = hn::Load(d, row);
    for (std::int64_t k = 1; k < n; ++k) largest = hn::Max(largest, hn::Load(d, row + k * lanes));
    auto sum = hn::Zero(d);
    for (std::int64_t k = 0; k < n; ++k) {
      const auto e = safe_exp(d, hn::Sub(hn::Load(d, row + k * lanes), largest));
      sum = hn::Add(sum, e);
      hn::Store(e, d, row + k * lanes);
    }
    for (std::int64_t k = 0; k < n; ++k) {
      hn::Store(hn::Add(hn::Div(hn::Load(d, row + k * lanes), sum), hn::Set(d, eps)), d, row + k * lanes);
    }
  }
  divide_by_sums_simd(c, n, lanes, n * lanes, eps);
  for (int i = 1; i < iterations; ++i) {
    divide_by_sums_simd(c, n, n * lanes, lanes, eps);
    divide_by_sums_simd(c, n, lanes, n * lanes, eps);
  }
}

/// Tokens [begin, begin + count), at most one a lane.
void pre_group(const HcPreArgs& args, ConstActivations<2> products, std::int64_t begin, std::int64_t count) {
  const TokenTag d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t n = args.streams.extent(1);
  const std::int64_t num_mixes = (2 + n) * n;
  alignas(64) float values[(2 + kMaxStreams) * kMaxStreams * 8];  // [mix, lane]
  alignas(64) float rho[8] = {};
  std::fill(values, values + num_mixes * lanes, 0.0F);
  for (std::int64_t lane = 0; lane < count; ++lane) {
    rho[lane] = streams_inverse_rms(args.streams[begin + lane], args.norm_eps);
    for (std::int64_t i = 0; i < num_mixes; ++i) values[i * lanes + lane] = products(begin + lane, i);
  }

  for (std::int64_t i = 0; i < num_mixes; ++i) {
    const auto scale =
        hn::Set(d, args.weights.scale[static_cast<std::size_t>(std::min<std::int64_t>(i / n, 2))]);
    const auto base = hn::Set(d, args.weights.base[static_cast<std::size_t>(i)]);
    auto v = hn::MulAdd(hn::Mul(hn::Load(d, values + i * lanes), hn::Load(d, rho)), scale, base);
    if (i < n) v = hn::Add(sigmoid_simd(d, v), hn::Set(d, args.hc_eps));
    if (n <= i && i < 2 * n) v = hn::Mul(sigmoid_simd(d, v), hn::Set(d, 2.0F));
    hn::Store(v, d, values + i * lanes);
  }
  sinkhorn_simd(values + 2 * n * lanes, n, args.sinkhorn_iterations, args.hc_eps);

  for (std::int64_t lane = 0; lane < count; ++lane) {
    const std::int64_t t = begin + lane;
    for (std::int64_t j = 0; j < n; ++j) {
      args.post(t, j) = values[(n + j) * lanes + lane];
      for (std::int64_t k = 0; k < n; ++k) args.comb(t, j, k) = values[((2 + j) * n + k) * lanes + lane];
    }
    weighted_stream_sum(args.streams[t], values + lane, lanes, args.precision, args.u.row(t).data());
  }
}

}  // namespace

void hc_pre_rows(const HcPreArgs& args, ConstActivations<2> products, std::int64_t begin, std::int64_t end) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(TokenTag()));
  for (std::int64_t t = begin; t < end; t += lanes) pre_group(args, products, t, std::min(lanes, end - t));
}

}  // namespace baleen::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace baleen {

HWY_EXPORT(hc_pre_rows);

void hc_pre_cpu(const HcPreArgs& args, CpuContext& context) {
  hc_mix_in_blocks(args.streams, args.weights, context,
                   [&](ConstActivations<2> products, std::int64_t begin, std::int64_t end) {
                     HWY_DYNAMIC_DISPATCH(hc_pre_rows)(args, products, begin, end);
                   });
}

std::int64_t hc_pre_scratch_bytes(std::int64_t num_rows, std::int64_t num_streams, std::int64_t width) {
  return hc_mix_scratch_bytes(num_rows, (2 + num_streams) * num_streams, num_streams * width);
}

}  // namespace baleen
#endif  // HWY_ONCE
