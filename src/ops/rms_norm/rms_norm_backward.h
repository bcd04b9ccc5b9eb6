/// The backward of RmsNorm, of its arguments x, weight and eps. Gradients accumulate, roundings pass them as
/// they are. Runs on the calling thread.
#pragma once

#include <cmath>
#include <cstdint>

#include "numeric/row_math.h"
#include "ops/rms_norm/rms_norm.h"

namespace baleen {

/// dx += ρ (h - x ρ² mean(h x)) with h = w dy and ρ = rsqrt(mean(x²) + eps); dw += Σ_rows dy x ρ (skipped
/// without weight). dy, dx: [rows, width] dense.
template <class T>
void rms_norm_backward(const RmsNormArgsOf<T>& args, const T* dy, T* dx, T* dw) {
  const std::int64_t width = args.x.extent(1);
  const T* const w = args.weight.empty() ? nullptr : args.weight.data();
  for (std::int64_t row = 0; row < args.x.extent(0); ++row, dy += width, dx += width) {
    const T* const x = args.x.row(row).data();
    const T rho =
        T{1} / std::sqrt(row_math::dot(x, x, width) / static_cast<T>(width) + static_cast<T>(args.eps));
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
