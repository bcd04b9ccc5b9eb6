/// Training of hc_pre and hc_head after their matrix product. The product with `fn` and its gradients are
/// `linear`'s:
/// raw = X fnᵀ before, dX += draw fn and dfn += drawᵀ X after. Gradients accumulate; draw is overwritten.
/// (source: training 11.2)
#pragma once

#include <array>
#include <cstdint>

#include "numeric/row_math.h"
#include "ops/hc_pre/sinkhorn_backward.h"

namespace baleen {

template <class T>
struct HcMixShape {
  std::int64_t rows = 0;
  int streams = 4;         ///< n
  std::int64_t width = 0;  ///< d
  bool head_only = false;  ///< hc_head: n mixes instead of (2 + n) n; no post, no comb
  int sinkhorn_iterations = 20;
  double hc_eps = 1e-6;
  double norm_eps = 1e-6;

  [[nodiscard]] int mixes() const { return head_only ? streams : (2 + streams) * streams; }
};

template <class T>
struct HcMixValues {
  const T* x = nullptr;      ///< [rows, n, d]
  const T* raw = nullptr;    ///< [rows, mixes]
  const T* scale = nullptr;  ///< [3], or [1] of hc_head
  const T* base = nullptr;   ///< [mixes]
  T* post = nullptr;         ///< [rows, n]
  T* comb = nullptr;         ///< [rows, n, n], [source, destination]
  T* u = nullptr;            ///< [rows, d]
};

namespace hc_detail {

template <class T>
T sigmoid(T x) {
  return T{1} / (T{1} + std::exp(-x));
}

/// rsqrt(mean(x²) + eps) over all streams of a row.
template <class T>
T inverse_rms(const T* x, std::int64_t size, double eps) {
  return T{1} / std::sqrt(row_math::dot(x, x, size) / static_cast<T>(size) + static_cast<T>(eps));
}

}  // namespace hc_detail

template <class T>
void hc_mix_forward(const HcMixShape<T>& s, const HcMixValues<T>& v) {
  const int n = s.streams;
  const std::int64_t size = n * s.width;
  Sinkhorn<T> sinkhorn(n, s.sinkhorn_iterations, s.hc_eps);
  std::array<T, kMaxStreams * kMaxStreams> a;
  for (std::int64_t row = 0; row < s.rows; ++row) {
    const T* x = v.x + row * size;
    const T rho = hc_detail::inverse_rms(x, size, s.norm_eps);
    const T* raw = v.raw + row * s.mixes();
    T* u = v.u + row * s.width;
    for (std::int64_t i = 0; i < s.width; ++i) u[i] = 0;
    for (int j = 0; j < n; ++j) {
      const T pre = hc_detail::sigmoid(raw[j] * rho * v.scale[0] + v.base[j]) + static_cast<T>(s.hc_eps);
      row_math::add_scaled(pre, x + j * s.width, u, s.width);
    }
    if (s.head_only) continue;
    for (int j = 0; j < n; ++j) {
      v.post[row * n + j] = 2 * hc_detail::sigmoid(raw[n + j] * rho * v.scale[1] + v.base[n + j]);
    }
    for (int i = 0; i < n * n; ++i) {
      a[static_cast<std::size_t>(i)] = raw[2 * n + i] * rho * v.scale[2] + v.base[2 * n + i];
    }
    sinkhorn.forward(a.data(), v.comb + row * n * n);
  }
}

template <class T>
struct HcMixGradients {
  const T* du = nullptr;     ///< [rows, d]
  const T* dpost = nullptr;  ///< [rows, n]; not of hc_head
  const T* dcomb = nullptr;  ///< [rows, n, n]; not of hc_head
  T* dx = nullptr;           ///< [rows, n, d] +=
  T* draw = nullptr;         ///< [rows, mixes] overwritten
  T* dscale = nullptr;       ///< += [3] or [1]
  T* dbase = nullptr;        ///< += [mixes]
};

template <class T>
void hc_mix_backward(const HcMixShape<T>& s, const HcMixValues<T>& v, const HcMixGradients<T>& g) {
  const int n = s.streams;
  const std::int64_t size = n * s.width;
  Sinkhorn<T> sinkhorn(n, s.sinkhorn_iterations, s.hc_eps);
  std::array<T, kMaxStreams * kMaxStreams> a;
  std::array<T, kMaxStreams * kMaxStreams> comb;
  std::array<T, kMaxStreams * kMaxStreams> dcomb;
  std::array<T, (2 + kMaxStreams) * kMaxStreams> da;
  for (std::int64_t row = 0; row < s.rows; ++row) {
    const T* x = v.x + row * size;
    const T* du = g.du + row * s.width;
    T* dx = g.dx + row * size;
    const T rho = hc_detail::inverse_rms(x, size, s.norm_eps);
    const T* raw = v.raw + row * s.mixes();
    for (int j = 0; j < n; ++j) {
      const T sigma = hc_detail::sigmoid(raw[j] * rho * v.scale[0] + v.base[j]);
      const T dpre = row_math::dot(x + j * s.width, du, s.width);
      row_math::add_scaled(sigma + static_cast<T>(s.hc_eps), du, dx + j * s.width, s.width);
      da[static_cast<std::size_t>(j)] = dpre * sigma * (1 - sigma);
    }
    if (!s.head_only) {
      for (int j = 0; j < n; ++j) {
        const T post = v.post[row * n + j];
        da[static_cast<std::size_t>(n + j)] = g.dpost[row * n + j] * post * (1 - post / 2);
      }
      for (int i = 0; i < n * n; ++i) {
        a[static_cast<std::size_t>(i)] = raw[2 * n + i] * rho * v.scale[2] + v.base[2 * n + i];
        dcomb[static_cast<std::size_t>(i)] = g.dcomb[row * n * n + i];
      }
      sinkhorn.forward(a.data(), comb.data());
      sinkhorn.backward(comb.data(), dcomb.data(), da.data() + 2 * n);
    }
    T along = 0;  // <dm, m>
    for (int i = 0; i < s.mixes(); ++i) {
      const int part = i < n ? 0 : i < 2 * n ? 1 : 2;
      const T d = da[static_cast<std::size_t>(i)];
      const T m = raw[i] * rho;
      g.dbase[i] += d;
      g.dscale[part] += d * m;
      const T dm = d * v.scale[part];
      along += dm * m;
      g.draw[row * s.mixes() + i] = rho * dm;
    }
    const T pull = rho * rho * along / static_cast<T>(size);  // rho depends on x too
    row_math::add_scaled(-pull, x, dx, size);
  }
}

/// Of floats: SIMD. The small arithmetic runs on a group of tokens at once, one a lane.
template <>
void hc_mix_forward(const HcMixShape<float>& s, const HcMixValues<float>& v);
template <>
void hc_mix_backward(const HcMixShape<float>& s, const HcMixValues<float>& v, const HcMixGradients<float>& g);

}  // namespace baleen
