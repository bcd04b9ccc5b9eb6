/// The backward of HcHead after its products: hc_pre_backward.h, without post and comb. Of streams that are
/// summed up with `given` weights there are no products, and their gradient is `dincoming`.
#pragma once

#include "ops/hc_head/hc_head.h"
#include "ops/hc_pre/hc_pre_backward.h"

namespace baleen {

template <class T>
void given_sum_backward(const HcHeadArgsOf<T>& args, const HcGradients<T>& g) {
  const std::int64_t n = args.streams.extent(1), width = args.streams.extent(2);
  for (std::int64_t row = 0; row < args.streams.extent(0); ++row) {
    const T* du = g.du + row * width;
    for (std::int64_t j = row * n; j < (row + 1) * n; ++j) {
      g.dincoming[j] += row_math::dot(args.streams.data() + j * width, du, width);
      row_math::add_scaled(args.given.data()[j], du, g.dx + j * width, width);
    }
  }
}

template <class T>
void hc_head_backward(const HcHeadArgsOf<T>& args, const HcGradients<T>& g) {
  if (!args.given.empty()) return given_sum_backward(args, g);
  hc_mix_backward<T>({.rows = args.streams.extent(0),
                      .streams = static_cast<int>(args.streams.extent(1)),
                      .width = args.streams.extent(2),
                      .head_only = true,
                      .hc_eps = args.hc_eps,
                      .norm_eps = args.norm_eps,
                      .x = args.streams.data(),
                      .raw = args.products.data(),
                      .scale = args.weights.scale.data(),
                      .base = args.weights.base.data()},
                     g);
}

}  // namespace baleen
