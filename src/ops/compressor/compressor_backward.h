/// The backward of `pooling_forward`. Gradients accumulate, dape where there is ape. (source: training 11.4)
#pragma once

#include "ops/compressor/pooling.h"

namespace baleen {

template <class T>
void pooling_backward(const PoolingValues<T>& v, const T* e, const T* de, T* dk, T* dg, T* dape) {
  std::vector<T> top;
  std::vector<T> sum;
  for (std::int64_t entry = 0; entry < v.entries(); ++entry) {
    pooling_detail::softmax_sums(v, entry, top, sum);
    pooling_detail::for_rows(v, entry, [&](std::int64_t t, std::int64_t offset) {
      for (std::int64_t a = 0; a < v.width; ++a) {
        const auto i = static_cast<std::size_t>(a);
        const std::int64_t column = offset + a;
        const std::int64_t at = t * v.columns() + column;
        const T p = pooling_detail::weight(v, t, column, top[i], sum[i]) * de[entry * v.width + a];
        const T gate = p * (v.k[at] - e[entry * v.width + a]);
        dk[at] += p;
        dg[at] += gate;
        if (v.ape != nullptr) dape[t % v.ratio * v.columns() + column] += gate;
      }
    });
  }
}

}  // namespace baleen
