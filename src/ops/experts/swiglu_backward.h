/// Training of the clamped SwiGLU: a = weight silu(min(g, limit)) clamp(v, ±limit). dg and dv are
/// overwritten.
/// (source: forward pass 6.2, training 11.9)
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace baleen {

/// `weights` [rows] or null: ones.
template <class T>
void swiglu_forward(std::int64_t rows, std::int64_t width, const T* g, const T* v, const T* weights,
                    double limit, T* a) {
  const T most = static_cast<T>(limit);
  for (std::int64_t row = 0; row < rows; ++row) {
    const T weight = weights != nullptr ? weights[row] : T{1};
    for (std::int64_t i = row * width; i < (row + 1) * width; ++i) {
      const T gate = std::min(g[i], most);
      a[i] = weight * (gate / (T{1} + std::exp(-gate)) * std::clamp(v[i], -most, most));
    }
  }
}

/// `dweights` [rows] is overwritten where `weights` is given.
template <class T>
void swiglu_backward(std::int64_t rows, std::int64_t width, const T* g, const T* v, const T* weights,
                     double limit, const T* da, T* dg, T* dv, T* dweights) {
  const T most = static_cast<T>(limit);
  for (std::int64_t row = 0; row < rows; ++row) {
    const T weight = weights != nullptr ? weights[row] : T{1};
    T dot = 0;
    for (std::int64_t i = row * width; i < (row + 1) * width; ++i) {
      const T gate = std::min(g[i], most);
      const T up = std::clamp(v[i], -most, most);
      const T sigma = T{1} / (T{1} + std::exp(-gate));
      dot += da[i] * gate * sigma * up;
      dg[i] = g[i] <= most ? weight * da[i] * up * sigma * (1 + gate * (1 - sigma)) : T{0};
      dv[i] = std::abs(v[i]) <= most ? weight * da[i] * gate * sigma : T{0};
    }
    if (dweights != nullptr) dweights[row] = dot;
  }
}

}  // namespace baleen
