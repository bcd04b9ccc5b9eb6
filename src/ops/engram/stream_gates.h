/// What a memory of n-grams adds to residual streams (engram.h) as training computes it: sums of row_math.h,
/// and weights as they are trained, where Engram of inference takes them in BF16. Forward, backward and what
/// they cost; on the calling thread.
/// (source: releases specification 2.7, step 5, and 9.C)
#pragma once

#include <cmath>
#include <cstdint>

#include "numeric/row_math.h"
#include "ops/engram/engram.h"
#include "ops/operation/operation.h"

namespace baleen {

template <class T>
struct StreamGateValues {
  std::int64_t rows = 0;
  std::int64_t streams = 0;         ///< n
  std::int64_t width = 0;           ///< d
  const TokenId* tokens = nullptr;  ///< [rows]
  TokenId image_token = -1;         ///< rows of this id keep their streams; -1: there is none
  const T* x = nullptr;             ///< [rows, n, d] streams as they come
  const T* projected = nullptr;     ///< [rows, (n + 1) d]: a key for each stream, then the value
  const T* q_weight = nullptr;      ///< [n, d]
  const T* k_weight = nullptr;      ///< [n, d]
  float eps = 0;

  [[nodiscard]] bool keeps(std::int64_t row) const { return tokens[row] == image_token; }
};

namespace stream_gate_detail {

/// Of one stream of a row.
template <class T>
struct Fit {
  const T *x, *key, *q, *k;
  T product = 0;                     ///< Σ x q k key
  T x_inverse = 0, key_inverse = 0;  ///< 1 / rms
  T fit = 0, gate = 0;

  Fit(const StreamGateValues<T>& v, std::int64_t row, std::int64_t stream)
      : x(v.x + (row * v.streams + stream) * v.width),
        key(v.projected + (row * (v.streams + 1) + stream) * v.width),
        q(v.q_weight + stream * v.width),
        k(v.k_weight + stream * v.width) {
    for (std::int64_t i = 0; i < v.width; ++i) product += x[i] * q[i] * k[i] * key[i];
    x_inverse = inverse_rms(x, v);
    key_inverse = inverse_rms(key, v);
    fit = product * x_inverse * key_inverse / std::sqrt(static_cast<T>(v.width));
    gate = T{1} / (T{1} + std::exp(-std::copysign(root(), fit)));
  }

  /// d gate / d fit: 0 below the least magnitude, where the sign alone counts.
  [[nodiscard]] T slope() const {
    if (!(std::fabs(fit) > static_cast<T>(kLeastEngramFit))) return 0;
    return gate * (1 - gate) / (2 * root());
  }

 private:
  static T inverse_rms(const T* values, const StreamGateValues<T>& v) {
    const T mean = row_math::dot(values, values, v.width) / static_cast<T>(v.width);
    return T{1} / std::sqrt(mean + static_cast<T>(v.eps));
  }
  [[nodiscard]] T root() const {
    return std::sqrt(std::fmax(std::fabs(fit), static_cast<T>(kLeastEngramFit)));
  }
};

}  // namespace stream_gate_detail

/// out [rows, n, d] = x + gate value
template <class T>
void stream_gates_forward(const StreamGateValues<T>& v, T* out) {
  for (std::int64_t row = 0; row < v.rows; ++row) {
    const T* const value = v.projected + (row * (v.streams + 1) + v.streams) * v.width;
    for (std::int64_t s = 0; s < v.streams; ++s) {
      const stream_gate_detail::Fit<T> of(v, row, s);
      const T gate = v.keeps(row) ? T{0} : of.gate;
      T* const to = out + (row * v.streams + s) * v.width;
      for (std::int64_t i = 0; i < v.width; ++i) to[i] = of.x[i] + gate * value[i];
    }
  }
}

/// dx, dprojected, dq and dk += from dout [rows, n, d]
template <class T>
void stream_gates_backward(const StreamGateValues<T>& v, const T* dout, T* dx, T* dprojected, T* dq, T* dk) {
  const T width = static_cast<T>(v.width);
  for (std::int64_t row = 0; row < v.rows; ++row) {
    const std::int64_t value_at = (row * (v.streams + 1) + v.streams) * v.width;
    for (std::int64_t s = 0; s < v.streams; ++s) {
      const std::int64_t at = (row * v.streams + s) * v.width;
      row_math::add_scaled(T{1}, dout + at, dx + at, v.width);
      if (v.keeps(row)) continue;
      const stream_gate_detail::Fit<T> of(v, row, s);
      row_math::add_scaled(of.gate, dout + at, dprojected + value_at, v.width);
      const T dfit = of.slope() * row_math::dot(dout + at, v.projected + value_at, v.width);
      const T dproduct = dfit * of.x_inverse * of.key_inverse / std::sqrt(width);
      // Both inverses fall with the values that they are of.
      const T x_pull = dfit * of.fit * of.x_inverse * of.x_inverse / width;
      const T key_pull = dfit * of.fit * of.key_inverse * of.key_inverse / width;
      T* const to_x = dx + at;
      T* const to_key = dprojected + (row * (v.streams + 1) + s) * v.width;
      T *const to_q = dq + s * v.width, *const to_k = dk + s * v.width;
      for (std::int64_t i = 0; i < v.width; ++i) {
        const T weight = of.q[i] * of.k[i], both = dproduct * of.x[i] * of.key[i];
        to_x[i] += dproduct * weight * of.key[i] - x_pull * of.x[i];
        to_key[i] += dproduct * weight * of.x[i] - key_pull * of.key[i];
        to_q[i] += both * of.k[i];
        to_k[i] += both * of.q[i];
      }
    }
  }
}

[[nodiscard]] OpCost stream_gates_cost(const StreamGateValues<float>& v);
[[nodiscard]] OpCost stream_gates_backward_cost(const StreamGateValues<float>& v);

}  // namespace baleen
