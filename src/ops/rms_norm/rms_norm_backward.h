/// Training of RMSNorm. Gradients accumulate. Runs on the calling thread.
#pragma once

#include <cmath>
#include <cstdint>

#include "numeric/row_math.h"

namespace baleen {

/// y = w x ρ with ρ = rsqrt(mean(x²) + eps), each row for itself. `w` null: ones.
template <class T>
void rms_norm_forward(std::int64_t rows, std::int64_t width, const T* x, const T* w, double eps, T* y) {
  for (std::int64_t row = 0; row < rows; ++row, x += width, y += width) {
    const T rho = T{1} / std::sqrt(row_math::dot(x, x, width) / static_cast<T>(width) + static_cast<T>(eps));
    for (std::int64_t i = 0; i < width; ++i) y[i] = (w != nullptr ? w[i] : T{1}) * (x[i] * rho);
  }
}

/// dx += ρ (h - x ρ² mean(h x)) with h = w dy; dw += Σ_rows dy x ρ (skipped where `w` is null).
template <class T>
void rms_norm_backward(std::int64_t rows, std::int64_t width, const T* x, const T* w, double eps, const T* dy,
                       T* dx, T* dw) {
  for (std::int64_t row = 0; row < rows; ++row, x += width, dy += width, dx += width) {
    const T rho = T{1} / std::sqrt(row_math::dot(x, x, width) / static_cast<T>(width) + static_cast<T>(eps));
    const T along = w != nullptr ? row_math::dot(w, dy, x, width) : row_math::dot(dy, x, width);
    const T pull = along * rho * rho / static_cast<T>(width);
    row_math::add_scaled(-rho * pull, x, dx, width);
    if (w == nullptr) {
      row_math::add_scaled(rho, dy, dx, width);
      continue;
    }
    for (std::int64_t i = 0; i < width; ++i) {
      dx[i] += rho * w[i] * dy[i];
      dw[i] += dy[i] * x[i] * rho;
    }
  }
}

}  // namespace baleen
