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

#include "ops/hc_pre/hc_mix-inl.h"

HWY_BEFORE_NAMESPACE();
namespace baleen::HWY_NAMESPACE {
namespace {

// Eight lanes, although there may be sixteen: decode fills one, and wider divisions take twice the time.
using TokenTag = hn::CappedTag<float, 8>;

/// Tokens [begin, begin + count), at most one a lane.
template <bool kTrains>
void pre_group(const HcPreArgs& args, ConstActivations<2> products, std::int64_t begin, std::int64_t count) {
  const TokenTag d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t n = args.streams.extent(1);
  alignas(64) float values[(2 + kMaxStreams) * kMaxStreams * 8];  // [mix, lane]
  mix_logits(d, args.streams, args.weights, args.norm_eps, products, begin, count, values);
  for (std::int64_t i = 0; i < 2 * n; ++i) {
    const auto gate = sigmoid_simd(d, hn::Load(d, values + i * lanes));
    const auto scaled = i < n ? hn::Add(gate, hn::Set(d, args.hc_eps)) : hn::Mul(gate, hn::Set(d, 2.0F));
    hn::Store(scaled, d, values + i * lanes);
  }
  sinkhorn_simd<kTrains>(d, values + 2 * n * lanes, n, args.sinkhorn_iterations, args.hc_eps);

  for (std::int64_t lane = 0; lane < count; ++lane) {
    const std::int64_t t = begin + lane;
    for (std::int64_t j = 0; j < n; ++j) {
      args.post(t, j) = values[(n + j) * lanes + lane];
      for (std::int64_t k = 0; k < n; ++k) args.comb(t, j, k) = values[((2 + j) * n + k) * lanes + lane];
    }
    if (args.lags()) {
      weighted_stream_sum(args.streams[t], args.incoming.row(t).data(), 1, args.precision,
                          args.u.row(t).data());
    } else {
      weighted_stream_sum(args.streams[t], values + lane, lanes, args.precision, args.u.row(t).data());
    }
    for (std::int64_t j = 0; j < n && !args.pre.empty(); ++j) args.pre(t, j) = values[j * lanes + lane];
  }
}

template <bool kTrains>
void pre_rows(const HcPreArgs& args, ConstActivations<2> products, std::int64_t begin, std::int64_t end) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(TokenTag()));
  for (std::int64_t t = begin; t < end; t += lanes)
    pre_group<kTrains>(args, products, t, std::min(lanes, end - t));
}

}  // namespace

void hc_pre_rows(const HcPreArgs& args, ConstActivations<2> products, std::int64_t begin, std::int64_t end) {
  pre_rows<false>(args, products, begin, end);
}
void hc_pre_training_rows(const HcPreArgs& args, ConstActivations<2> products, std::int64_t begin,
                          std::int64_t end) {
  pre_rows<true>(args, products, begin, end);
}

}  // namespace baleen::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace baleen {

HWY_EXPORT(hc_pre_rows);
HWY_EXPORT(hc_pre_training_rows);

void hc_pre_cpu(const HcPreArgs& args, CpuContext& context) {
  hc_mix_in_blocks(args.streams, args.weights, args.products, context,
                   [&](ConstActivations<2> products, std::int64_t begin, std::int64_t end) {
                     HWY_DYNAMIC_DISPATCH(hc_pre_rows)(args, products, begin, end);
                   });
}

void hc_pre_training(const HcPreArgs& args, CpuContext& context) {
  hc_mix_in_training(args.streams, args.weights, args.products, context,
                     [&](ConstActivations<2> products, std::int64_t begin, std::int64_t end) {
                       HWY_DYNAMIC_DISPATCH(hc_pre_training_rows)(args, products, begin, end);
                     });
}

std::int64_t hc_pre_scratch_bytes(std::int64_t num_rows, std::int64_t num_streams, std::int64_t width) {
  return hc_mix_scratch_bytes(num_rows, (2 + num_streams) * num_streams, num_streams * width);
}

}  // namespace baleen
#endif  // HWY_ONCE
