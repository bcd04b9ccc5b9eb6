/// The backward of `swiglu_forward`: dg and dv are overwritten, the rounding passes gradients as they are.
/// (source: training 11.9)
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "numeric/row_math.h"
#include "ops/experts/swiglu.h"

namespace baleen {

namespace swiglu_detail {

/// Values at a time, in the processor's nearest cache.
inline constexpr std::int64_t kValues = 256;

/// min(g, limit) of up to kValues values, and σ of it.
template <class T>
struct Gates {
  Gates(const T* g, std::int64_t count, T limit) {
    for (std::int64_t i = 0; i < count; ++i) gate[i] = std::min(g[i], limit);
    std::copy_n(gate, count, sigma);
    row_math::sigmoid(sigma, count);
  }

  T gate[kValues];
  T sigma[kValues];
};

}  // namespace swiglu_detail

/// `dweights` [rows] is overwritten where `weights` is given.
template <class T>
void swiglu_backward(std::int64_t rows, std::int64_t width, const T* g, const T* v, const T* weights,
                     float limit, const T* da, T* dg, T* dv, T* dweights) {
  using swiglu_detail::kValues;
  const T most = limit > 0 ? static_cast<T>(limit) : std::numeric_limits<T>::infinity();
  T activated[kValues];
  for (std::int64_t row = 0; row < rows; ++row) {
    const T weight = weights != nullptr ? weights[row] : T{1};
    T dweight = 0;
    for (std::int64_t at = row * width; at < (row + 1) * width; at += kValues) {
      const std::int64_t count = std::min(kValues, (row + 1) * width - at);
      const swiglu_detail::Gates<T> gates(g + at, count, most);
      for (std::int64_t i = 0; i < count; ++i) {
        const T up = std::clamp(v[at + i], -most, most);
        const T sigma = gates.sigma[i];
        const T silu = gates.gate[i] * sigma;
        const T d = weight * da[at + i];
        activated[i] = silu * up;
        dg[at + i] = g[at + i] <= most ? d * up * sigma * (1 + gates.gate[i] * (1 - sigma)) : T{0};
        dv[at + i] = std::abs(v[at + i]) <= most ? d * silu : T{0};
      }
      dweight += row_math::dot(da + at, activated, count);
    }
    if (dweights != nullptr) dweights[row] = dweight;
  }
}

}  // namespace baleen
