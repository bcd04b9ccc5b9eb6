/// The backward of HcPre, and of HcHead (hc_head_backward.h), after their products, whose gradients are a
/// linear's: dX += draw fn and dfn += drawᵀ X. It reads what the forward read, its `products` and `post`. Of
/// Sinkhorn it goes through all steps. Gradients accumulate, draw is overwritten; roundings pass gradients as
/// they are. Arrays are dense. Runs on the calling thread.
/// (source: training 11.2)
#pragma once

#include <array>
#include <cstdint>

#include "numeric/row_math.h"
#include "ops/hc_pre/hc_pre.h"
#include "ops/hc_pre/sinkhorn.h"

namespace baleen {

template <class T>
struct HcGradients {
  const T* du = nullptr;     ///< [T, d]; of hc_head, of its y
  const T* dpost = nullptr;  ///< [T, n]; not of hc_head
  const T* dcomb = nullptr;  ///< [T, n, n]; not of hc_head
  const T* dpre = nullptr;   ///< [T, n] of the site's own, where mixing lags
  T* dx = nullptr;           ///< [T, n, d] +=
  T* dincoming = nullptr;    ///< [T, n] +=, where mixing lags
  T* draw = nullptr;         ///< [T, mixes] of `products`, overwritten
  T* dscale = nullptr;       ///< += [3] or [1]
  T* dbase = nullptr;        ///< += [mixes]
};

/// What the backward of either reads of the forward.
template <class T>
struct HcMixing {
  std::int64_t rows = 0;
  int streams = 4;         ///< n
  std::int64_t width = 0;  ///< d
  bool head_only = false;  ///< hc_head: n mixes instead of (2 + n) n; no post, no comb
  int sinkhorn_iterations = 20;
  float hc_eps = 1e-6F;
  float norm_eps = 1e-6F;
  const T* x = nullptr;         ///< [rows, n, d]
  const T* raw = nullptr;       ///< [rows, mixes] products
  const T* scale = nullptr;     ///< [3], or [1] of hc_head
  const T* base = nullptr;      ///< [mixes]
  const T* post = nullptr;      ///< [rows, n]
  const T* incoming = nullptr;  ///< [rows, n] what u was summed up with; null: the site's own pre

  [[nodiscard]] int mixes() const { return head_only ? streams : (2 + streams) * streams; }
};

namespace hc_detail {

template <class T>
T sigmoid(T x) {
  return T{1} / (T{1} + std::exp(-x));
}

/// rsqrt(mean(x²) + eps) over all streams of a row.
template <class T>
T inverse_rms(const T* x, std::int64_t size, float eps) {
  return T{1} / std::sqrt(row_math::dot(x, x, size) / static_cast<T>(size) + static_cast<T>(eps));
}

}  // namespace hc_detail

template <class T>
void hc_mix_backward(const HcMixing<T>& v, const HcGradients<T>& g) {
  const int n = v.streams;
  const std::int64_t size = n * v.width;
  Sinkhorn<T> sinkhorn(n, v.sinkhorn_iterations, v.hc_eps);
  std::array<T, kMaxStreams * kMaxStreams> a;
  std::array<T, kMaxStreams * kMaxStreams> comb;
  std::array<T, kMaxStreams * kMaxStreams> dcomb;
  std::array<T, (2 + kMaxStreams) * kMaxStreams> da;
  for (std::int64_t row = 0; row < v.rows; ++row) {
    const T* x = v.x + row * size;
    const T* du = g.du + row * v.width;
    T* dx = g.dx + row * size;
    const T rho = hc_detail::inverse_rms(x, size, v.norm_eps);
    const T* raw = v.raw + row * v.mixes();
    for (int j = 0; j < n; ++j) {
      const T sigma = hc_detail::sigmoid(raw[j] * rho * v.scale[0] + v.base[j]);
      const T dweight = row_math::dot(x + j * v.width, du, v.width);  // of what summed u up
      const bool lags = v.incoming != nullptr;
      const T weight = lags ? v.incoming[row * n + j] : sigma + static_cast<T>(v.hc_eps);
      row_math::add_scaled(weight, du, dx + j * v.width, v.width);
      if (lags) g.dincoming[row * n + j] += dweight;
      da[static_cast<std::size_t>(j)] = (lags ? g.dpre[row * n + j] : dweight) * sigma * (1 - sigma);
    }
    if (!v.head_only) {
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
    for (int i = 0; i < v.mixes(); ++i) {
      const int part = i < n ? 0 : i < 2 * n ? 1 : 2;
      const T d = da[static_cast<std::size_t>(i)];
      const T m = raw[i] * rho;
      g.dbase[i] += d;
      g.dscale[part] += d * m;
      const T dm = d * v.scale[part];
      along += dm * m;
      g.draw[row * v.mixes() + i] = rho * dm;
    }
    const T pull = rho * rho * along / static_cast<T>(size);  // rho depends on x too
    row_math::add_scaled(-pull, x, dx, size);
  }
}

/// Of floats: SIMD. The small arithmetic runs on a group of tokens at once, one a lane.
template <>
void hc_mix_backward(const HcMixing<float>& v, const HcGradients<float>& g);

template <class T>
void hc_pre_backward(const HcPreArgsOf<T>& args, const HcGradients<T>& g) {
  hc_mix_backward<T>({.rows = args.streams.extent(0),
                      .streams = static_cast<int>(args.streams.extent(1)),
                      .width = args.streams.extent(2),
                      .sinkhorn_iterations = args.sinkhorn_iterations,
                      .hc_eps = args.hc_eps,
                      .norm_eps = args.norm_eps,
                      .x = args.streams.data(),
                      .raw = args.products.data(),
                      .scale = args.weights.scale.data(),
                      .base = args.weights.base.data(),
                      .post = args.post.data(),
                      .incoming = args.lags() ? args.incoming.data() : nullptr},
                     g);
}

}  // namespace baleen
