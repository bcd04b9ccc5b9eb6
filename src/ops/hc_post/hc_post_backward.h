/// Training of hc_post: X'[k] = post_k f + Σ_j comb[j][k] X[j]. Gradients accumulate, dpost and dcomb are
/// overwritten.
/// (source: training 11.1)
#pragma once

#include <algorithm>
#include <cstdint>

#include "numeric/row_products.h"
#include "ops/hc_pre/sinkhorn_backward.h"

namespace baleen {

template <class T>
struct HcPostValues {
  std::int64_t rows = 0;
  int streams = 4;
  std::int64_t width = 0;
  const T* x = nullptr;     ///< [rows, n, d]
  const T* f = nullptr;     ///< [rows, d]
  const T* post = nullptr;  ///< [rows, n]
  const T* comb = nullptr;  ///< [rows, n, n]
};

namespace hc_detail {

/// The rows that meet in one token, and the coefficients between them.
template <class T>
struct PostToken {
  PostToken(const HcPostValues<T>& v, std::int64_t row) : streams(v.streams) {
    const std::int64_t n = v.streams;
    in[0] = v.f + row * v.width;
    for (std::int64_t j = 0; j < n; ++j) in[1 + j] = v.x + (row * n + j) * v.width;
    std::copy_n(v.post + row * n, n, mix);
    std::copy_n(v.comb + row * n * n, n * n, mix + n);
  }

  /// Of each result, by what it is made of: mix transposed.
  void transposed(T* by_result) const {
    for (int k = 0; k < streams; ++k)
      for (int i = 0; i <= streams; ++i) by_result[k * (1 + streams) + i] = mix[i * streams + k];
  }

  int streams;
  const T* in[1 + kMaxStreams];            ///< f, x_0, x_1, ...
  T mix[(1 + kMaxStreams) * kMaxStreams];  ///< [1 + n, n]: of each `in`, to each result
};

}  // namespace hc_detail

template <class T>
void hc_post_forward(const HcPostValues<T>& v, T* out) {
  const int n = v.streams;
  T by_result[(1 + kMaxStreams) * kMaxStreams];
  T* results[kMaxStreams];
  for (std::int64_t row = 0; row < v.rows; ++row) {
    const hc_detail::PostToken<T> token(v, row);
    token.transposed(by_result);
    for (int k = 0; k < n; ++k) results[k] = out + (row * n + k) * v.width;
    row_math::combine(n, results, 1 + n, token.in, by_result, v.width, false);
  }
}

template <class T>
void hc_post_backward(const HcPostValues<T>& v, const T* dout, T* dx, T* df, T* dpost, T* dcomb) {
  const int n = v.streams;
  T products[(1 + kMaxStreams) * kMaxStreams];
  const T* dresults[kMaxStreams];
  T* din[1 + kMaxStreams];
  for (std::int64_t row = 0; row < v.rows; ++row) {
    const hc_detail::PostToken<T> token(v, row);
    din[0] = df + row * v.width;
    for (int j = 0; j < n; ++j) {
      din[1 + j] = dx + (row * n + j) * v.width;
      dresults[j] = dout + (row * n + j) * v.width;
    }
    row_math::combine(1 + n, din, n, dresults, token.mix, v.width, true);
    row_math::dot_all(1 + n, token.in, n, dresults, v.width, products);
    std::copy_n(products, n, dpost + row * n);
    std::copy_n(products + n, n * n, dcomb + row * n * n);
  }
}

}  // namespace baleen
