#include "trainer/graph/site.h"

#include "ops/hc_pre/hc_pre_backward.h"
#include "ops/linear/linear_backward.h"
#include "ops/rms_norm/rms_norm_backward.h"
#include "trainer/graph/plain_residual.h"

namespace baleen::graph {
namespace {

template <class T>
HcMixShape<T> mix_shape(const ModelConfig& config, SiteKind kind, std::int64_t rows) {
  return {.rows = rows,
          .streams = static_cast<int>(config.hc_mult),
          .width = config.hidden_size,
          .head_only = kind == SiteKind::kHead,
          .sinkhorn_iterations = static_cast<int>(config.hc_sinkhorn_iters),
          .hc_eps = config.hc_eps,
          .norm_eps = config.rms_norm_eps};
}

template <class T>
HcMixValues<T> mix_values(const HcMixShape<T>& s, const SiteWeights<const T>& w, const T* x,
                          SiteActivations<T>& a, std::int64_t row) {
  return {.x = x + row * s.streams * s.width,
          .raw = a.raw.data() + row * s.mixes(),
          .scale = w.mixing.scale,
          .base = w.mixing.base,
          .post = s.head_only ? nullptr : a.post.data() + row * s.streams,
          .comb = s.head_only ? nullptr : a.comb.data() + row * s.streams * s.streams,
          .u = a.u.data() + row * s.width};
}

}  // namespace

template <class T>
void site_forward(const GraphContext<T>& context, SiteKind kind, const SiteWeights<const T>& w, const T* x,
                  SiteActivations<T>& a) {
  if (context.plain_residual) return plain_site_forward(context, w, x, a);
  const ModelConfig& config = context.config;
  const std::int64_t n = context.tokens();
  const HcMixShape<T> whole = mix_shape<T>(config, kind, n);
  linear_forward<T>({n, config.hc_dim(), whole.mixes()}, x, w.mixing.fn, resized(a.raw, n * whole.mixes()),
                    context.pool);
  resized(a.u, n * config.hidden_size);
  resized(a.normed, n * config.hidden_size);
  if (kind == SiteKind::kHalfBlock) {
    resized(a.post, n * config.hc_mult);
    resized(a.comb, n * config.hc_mult * config.hc_mult);
  }
  for_row_blocks(context.pool, n, [&](std::int64_t row, std::int64_t rows) {
    const HcMixShape<T> s = mix_shape<T>(config, kind, rows);
    const HcMixValues<T> v = mix_values(s, w, x, a, row);
    hc_mix_forward(s, v);
    context.rounding.result(rows, s.width, v.u);
    rms_norm_forward<T>(rows, s.width, v.u, w.norm, config.rms_norm_eps, a.normed.data() + row * s.width);
    context.rounding.result(rows, s.width, a.normed.data() + row * s.width);
  });
}

template <class T>
void site_backward(const GraphContext<T>& context, SiteKind kind, const SiteWeights<const T>& w,
                   const SiteWeights<T>& g, const T* x, SiteActivations<T>& a, const T* dnormed,
                   const T* dpost, const T* dcomb, T* dx) {
  if (context.plain_residual) return plain_site_backward(context, w, g, x, dnormed, dx);
  const ModelConfig& config = context.config;
  const std::int64_t n = context.tokens();
  const std::int64_t width = config.hidden_size;
  const std::int64_t streams = config.hc_mult;
  const std::int64_t mixes = mix_shape<T>(config, kind, n).mixes();
  constexpr std::int64_t kScales = 3;
  Values<T> draw;
  Values<T> vectors;  // gradients of norm, base, scale
  resized(draw, n * mixes);
  zeros(vectors, width + mixes + kScales);
  sum_over_rows<T>(context.pool, n, width + mixes + kScales, vectors.data(),
                   [&](std::int64_t row, std::int64_t rows, T* partial) {
                     Values<T> du;
                     zeros(du, rows * width);
                     rms_norm_backward<T>(rows, width, a.u.data() + row * width, w.norm, config.rms_norm_eps,
                                          dnormed + row * width, du.data(), partial);
                     const HcMixShape<T> s = mix_shape<T>(config, kind, rows);
                     hc_mix_backward<T>(s, mix_values(s, w, x, a, row),
                                        {.du = du.data(),
                                         .dpost = s.head_only ? nullptr : dpost + row * streams,
                                         .dcomb = s.head_only ? nullptr : dcomb + row * streams * streams,
                                         .dx = dx + row * streams * width,
                                         .draw = draw.data() + row * mixes,
                                         .dscale = partial + width + mixes,
                                         .dbase = partial + width});
                   });
  const T* sum = vectors.data();
  for (std::int64_t i = 0; i < width; ++i) g.norm[i] += *sum++;
  for (std::int64_t i = 0; i < mixes; ++i) g.mixing.base[i] += *sum++;
  for (std::int64_t i = 0; i < (kind == SiteKind::kHead ? 1 : kScales); ++i) g.mixing.scale[i] += *sum++;
  linear_backward<T>({n, config.hc_dim(), mixes}, x, w.mixing.fn, draw.data(), dx, g.mixing.fn, context.pool);
}

template void site_forward(const GraphContext<float>&, SiteKind, const SiteWeights<const float>&,
                           const float*, SiteActivations<float>&);
template void site_forward(const GraphContext<double>&, SiteKind, const SiteWeights<const double>&,
                           const double*, SiteActivations<double>&);
template void site_backward(const GraphContext<float>&, SiteKind, const SiteWeights<const float>&,
                            const SiteWeights<float>&, const float*, SiteActivations<float>&, const float*,
                            const float*, const float*, float*);
template void site_backward(const GraphContext<double>&, SiteKind, const SiteWeights<const double>&,
                            const SiteWeights<double>&, const double*, SiteActivations<double>&,
                            const double*, const double*, const double*, double*);

}  // namespace baleen::graph
