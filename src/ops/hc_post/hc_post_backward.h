/// The backward of HcPost: X'[k] = post_k f + Σ_j comb[j][k] X[j], whose X are `entering()`. Gradients
/// accumulate, dpost and dcomb are overwritten; roundings pass gradients as they are. Arrays are dense. Runs
/// on the calling thread.
/// (source: training 11.1)
#pragma once

#include <algorithm>
#include <cstdint>

#include "numeric/row_products.h"
#include "ops/hc_post/hc_post.h"

namespace baleen {

/// dout, dx: [T, n, d]; df [T, d]; dpost [T, n]; dcomb [T, n, n].
template <class T>
void hc_post_backward(const HcPostArgsOf<T>& args, const T* dout, T* dx, T* df, T* dpost, T* dcomb) {
  const auto n = static_cast<int>(args.streams.extent(1));
  const std::int64_t width = args.streams.extent(2);
  const ActivationView<const T, 3> x = args.entering();
  const T* in[1 + kMaxStreams];            // f, x_0, x_1, ...
  T mix[(1 + kMaxStreams) * kMaxStreams];  // [1 + n, n]: of each `in`, to each result
  T products[(1 + kMaxStreams) * kMaxStreams];
  const T* dresults[kMaxStreams];
  T* din[1 + kMaxStreams];
  for (std::int64_t row = 0; row < args.streams.extent(0); ++row) {
    in[0] = args.f.row(row).data();
    din[0] = df + row * width;
    for (int j = 0; j < n; ++j) {
      in[1 + j] = x[row].row(j).data();
      din[1 + j] = dx + (row * n + j) * width;
      dresults[j] = dout + (row * n + j) * width;
    }
    std::copy_n(args.post.row(row).data(), n, mix);
    std::copy_n(args.comb[row].data(), n * n, mix + n);
    row_math::combine(1 + n, din, n, dresults, mix, width, true);
    row_math::dot_all(1 + n, in, n, dresults, width, products);
    std::copy_n(products, n, dpost + row * n);
    std::copy_n(products + n, n * n, dcomb + row * n * n);
  }
}

}  // namespace baleen
