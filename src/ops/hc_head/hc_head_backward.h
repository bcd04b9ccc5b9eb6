/// The backward of HcHead after its products: hc_pre_backward.h, without post and comb.
#pragma once

#include "ops/hc_head/hc_head.h"
#include "ops/hc_pre/hc_pre_backward.h"

namespace baleen {

template <class T>
void hc_head_backward(const HcHeadArgsOf<T>& args, const HcGradients<T>& g) {
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
