#include "numeric/simd_targets.h"
#include "ops/hc_head/hc_head.h"
#include "ops/hc_pre/hc_mix.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/hc_head/hc_head_cpu.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "ops/hc_pre/hc_mix-inl.h"

HWY_BEFORE_NAMESPACE();
namespace baleen::HWY_NAMESPACE {

void hc_head_rows(const HcHeadArgs& args, ConstActivations<2> products, std::int64_t begin,
                  std::int64_t end) {
  const HcWeights& weights = args.weights;
  for (std::int64_t t = begin; t < end; ++t) {
    const float rho = streams_inverse_rms(args.streams[t], args.norm_eps);
    float pre[kMaxStreams];
    for (std::int64_t j = 0; j < args.streams.extent(1); ++j) {
      const float logit = products(t, j) * rho * weights.scale[0] + weights.base[static_cast<std::size_t>(j)];
      pre[j] = 1.0F / (1.0F + std::exp(-logit)) + args.hc_eps;
    }
    weighted_stream_sum(args.streams[t], pre, 1, args.precision, args.y.row(t).data());
  }
}

void hc_head_given_rows(const HcHeadArgs& args, std::int64_t begin, std::int64_t end) {
  for (std::int64_t t = begin; t < end; ++t) {
    weighted_stream_sum(args.streams[t], args.given.row(t).data(), 1, args.precision, args.y.row(t).data());
  }
}

/// One token a lane, as the backward computes the same again.
void hc_head_training_rows(const HcHeadArgs& args, ConstActivations<2> products, std::int64_t begin,
                           std::int64_t end) {
  const hn::CappedTag<float, 8> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  alignas(64) float pre[kMaxStreams * 8];  // [stream, lane]
  for (std::int64_t t = begin; t < end; t += lanes) {
    const std::int64_t count = std::min(lanes, end - t);
    mix_logits(d, args.streams, args.weights, args.norm_eps, products, t, count, pre);
    for (std::int64_t j = 0; j < args.streams.extent(1); ++j) {
      const auto gate = sigmoid_simd(d, hn::Load(d, pre + j * lanes));
      hn::Store(hn::Add(gate, hn::Set(d, args.hc_eps)), d, pre + j * lanes);
    }
    for (std::int64_t lane = 0; lane < count; ++lane) {
      weighted_stream_sum(args.streams[t + lane], pre + lane, lanes, args.precision,
                          args.y.row(t + lane).data());
    }
  }
}

}  // namespace baleen::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace baleen {

HWY_EXPORT(hc_head_rows);
HWY_EXPORT(hc_head_given_rows);
HWY_EXPORT(hc_head_training_rows);

namespace {

void sum_with_given(const HcHeadArgs& args, CpuContext& context) {
  for_row_blocks(context.pool, args.streams.extent(0), args.streams.extent(1) * args.streams.extent(2),
                 [&](std::int64_t begin, std::int64_t end, int) {
                   HWY_DYNAMIC_DISPATCH(hc_head_given_rows)(args, begin, end);
                 });
}

}  // namespace

void hc_head_cpu(const HcHeadArgs& args, CpuContext& context) {
  if (!args.given.empty()) return sum_with_given(args, context);
  hc_mix_in_blocks(args.streams, args.weights, args.products, context,
                   [&](ConstActivations<2> products, std::int64_t begin, std::int64_t end) {
                     HWY_DYNAMIC_DISPATCH(hc_head_rows)(args, products, begin, end);
                   });
}

void hc_head_training(const HcHeadArgs& args, CpuContext& context) {
  if (!args.given.empty()) return sum_with_given(args, context);
  hc_mix_in_training(args.streams, args.weights, args.products, context,
                     [&](ConstActivations<2> products, std::int64_t begin, std::int64_t end) {
                       HWY_DYNAMIC_DISPATCH(hc_head_training_rows)(args, products, begin, end);
                     });
}

std::int64_t hc_head_scratch_bytes(std::int64_t num_rows, std::int64_t num_streams, std::int64_t width) {
  return hc_mix_scratch_bytes(num_rows, num_streams, num_streams * width);
}

}  // namespace baleen
#endif  // HWY_ONCE
