/// Training of hc_post: X'[k] = post_k f + Σ_j comb[j][k] X[j]. Gradients accumulate, dpost and dcomb are
/// overwritten.
/// (source: training 11.1)
#pragma once

#include <cstdint>

#include "numeric/row_math.h"

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

template <class T>
void hc_post_forward(const HcPostValues<T>& v, T* out) {
  const int n = v.streams;
  const std::int64_t d = v.width;
  for (std::int64_t row = 0; row < v.rows; ++row) {
    for (int k = 0; k < n; ++k) {
      T* y = out + (row * n + k) * d;
      const T post = v.post[row * n + k];
      for (std::int64_t i = 0; i < d; ++i) y[i] = post * v.f[row * d + i];
      for (int j = 0; j < n; ++j) {
        const T mix = v.comb[(row * n + j) * n + k];
        const T* x = v.x + (row * n + j) * d;
        row_math::add_scaled(mix, x, y, d);
      }
    }
  }
}

template <class T>
void hc_post_backward(const HcPostValues<T>& v, const T* dout, T* dx, T* df, T* dpost, T* dcomb) {
  const int n = v.streams;
  const std::int64_t d = v.width;
  for (std::int64_t row = 0; row < v.rows; ++row) {
    const T* f = v.f + row * d;
    for (int k = 0; k < n; ++k) {
      const T* dy = dout + (row * n + k) * d;
      const T post = v.post[row * n + k];
      row_math::add_scaled(post, dy, df + row * d, d);
      dpost[row * n + k] = row_math::dot(dy, f, d);
      for (int j = 0; j < n; ++j) {
        const T mix = v.comb[(row * n + j) * n + k];
        row_math::add_scaled(mix, dy, dx + (row * n + j) * d, d);
        dcomb[(row * n + j) * n + k] = row_math::dot(v.x + (row * n + j) * d, dy, d);
      }
    }
  }
}

}  // namespace baleen
