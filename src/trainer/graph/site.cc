#include "trainer/graph/site.h"

#include "ops/hc_head/hc_head_backward.h"
#include "ops/hc_pre/hc_pre_backward.h"
#include "ops/linear/linear_backward.h"
#include "ops/rms_norm/rms_norm_backward.h"
#include "trainer/graph/plain_residual.h"

namespace baleen::graph {
namespace {

template <class T>
HcWeightsOf<T> weights_of(const GraphContext<T>& context, const MixingRows& w, std::int64_t mixes,
                          std::size_t scales) {
  return {.fn = {context.weight(w.fn), {mixes, context.config.hc_dim()}},
          .base = {context.weight(w.base), static_cast<std::size_t>(mixes)},
          .scale = {context.weight(w.scale), scales}};
}

constexpr std::int64_t kScales = 3;  ///< scales that a half-block's mixing has; the head's has one

/// Where mixing lags the head has none.
std::int64_t num_mixes(const ModelConfig& config, SiteKind kind) {
  if (kind == SiteKind::kHalfBlock) return config.hc_num_mixes();
  return config.lags_mixing() ? 0 : config.hc_mult;
}

/// Rows from `begin` on of weights of streams; empty where there are none.
template <class Weights, class T>
Weights rows_of(T* weights, std::int64_t begin, std::int64_t rows, std::int64_t n) {
  return weights == nullptr ? Weights() : Weights(weights + begin * n, {rows, n});
}

/// The mixing of a half-block over rows [begin, begin + rows).
template <class T>
HcPreArgsOf<T> entry_of(const GraphContext<T>& context, const SiteRows& w, const SiteInputs<T>& in,
                        SiteActivations<T>& a, std::int64_t begin, std::int64_t rows) {
  const ModelConfig& config = context.config;
  const std::int64_t n = config.hc_mult, mixes = num_mixes(config, SiteKind::kHalfBlock);
  return {.streams = {in.x + begin * config.hc_dim(), {rows, n, config.hidden_size}},
          .weights = weights_of(context, w.mixing, mixes, kScales),
          .norm_eps = static_cast<float>(config.rms_norm_eps),
          .hc_eps = static_cast<float>(config.hc_eps),
          .sinkhorn_iterations = static_cast<int>(config.hc_sinkhorn_iters),
          .precision = context.precision(),
          .u = {a.u.data() + begin * config.hidden_size, {rows, config.hidden_size}},
          .post = {a.post.data() + begin * n, {rows, n}},
          .comb = {a.comb.data() + begin * n * n, {rows, n, n}},
          .products = {a.raw.data() + begin * mixes, {rows, mixes}},
          .incoming = rows_of<ActivationView<const T, 2>>(in.pre, begin, rows, n),
          .pre = rows_of<ActivationView<T, 2>>(in.pre == nullptr ? nullptr : a.pre.data(), begin, rows, n)};
}

/// The same of the head.
template <class T>
HcHeadArgsOf<T> head_of(const GraphContext<T>& context, const SiteRows& w, const SiteInputs<T>& in,
                        SiteActivations<T>& a, std::int64_t begin, std::int64_t rows) {
  const ModelConfig& config = context.config;
  const std::int64_t n = config.hc_mult;
  if (in.pre != nullptr) {
    return {.streams = {in.x + begin * config.hc_dim(), {rows, n, config.hidden_size}},
            .precision = context.precision(),
            .y = {a.u.data() + begin * config.hidden_size, {rows, config.hidden_size}},
            .given = rows_of<ActivationView<const T, 2>>(in.pre, begin, rows, n)};
  }
  return {.streams = {in.x + begin * config.hc_dim(), {rows, n, config.hidden_size}},
          .weights = weights_of(context, w.mixing, n, 1),
          .norm_eps = static_cast<float>(config.rms_norm_eps),
          .hc_eps = static_cast<float>(config.hc_eps),
          .precision = context.precision(),
          .y = {a.u.data() + begin * config.hidden_size, {rows, config.hidden_size}},
          .products = {a.raw.data() + begin * n, {rows, n}}};
}

}  // namespace

template <class T>
void site_forward(const GraphContext<T>& context, SiteKind kind, const SiteRows& w, const SiteInputs<T>& in,
                  SiteActivations<T>& a) {
  if (context.plain_residual) return plain_site_forward(context, w, in.x, a);
  const ModelConfig& config = context.config;
  const std::int64_t n = context.tokens();
  resized(a.raw, n * num_mixes(config, kind));
  resized(a.u, n * config.hidden_size);
  resized(a.normed, n * config.hidden_size);
  if (kind == SiteKind::kHalfBlock) {
    resized(a.post, n * config.hc_mult);
    resized(a.comb, n * config.hc_mult * config.hc_mult);
    if (in.pre != nullptr) resized(a.pre, n * config.hc_mult);
    context.template run<ops::HcPre>(entry_of(context, w, in, a, 0, n));
  } else {
    context.template run<ops::HcHead>(head_of(context, w, in, a, 0, n));
  }
  context.norm(n, config.hidden_size, a.u.data(), w.norm, a.normed.data());
}

template <class T>
void site_backward(const GraphContext<T>& context, SiteKind kind, const SiteRows& w, const SiteInputs<T>& in,
                   SiteActivations<T>& a, const SiteGradients<T>& d, const SiteInputGradients<T>& din) {
  if (context.plain_residual) return plain_site_backward(context, w, in.x, d.normed, din.x);
  const ModelConfig& config = context.config;
  const std::int64_t n = context.tokens();
  const std::int64_t width = config.hidden_size;
  const std::int64_t streams = config.hc_mult;
  const std::int64_t mixes = num_mixes(config, kind);
  Values<T> draw;
  Values<T> vectors;  // gradients of norm, base, scale
  resized(draw, n * mixes);
  zeros(vectors, width + mixes + kScales);
  sum_over_rows<T>(context.pool, n, width + mixes + kScales, vectors.data(),
                   [&](std::int64_t row, std::int64_t rows, T* partial) {
                     Values<T> du;
                     zeros(du, rows * width);
                     rms_norm_backward<T>(context.norm_of(rows, width, a.u.data() + row * width, w.norm),
                                          d.normed + row * width, du.data(), partial);
                     HcGradients<T> gradients{.du = du.data(),
                                              .dx = din.x + row * streams * width,
                                              .draw = draw.data() + row * mixes,
                                              .dscale = partial + width + mixes,
                                              .dbase = partial + width};
                     if (in.pre != nullptr) gradients.dincoming = din.pre + row * streams;
                     if (kind == SiteKind::kHead)
                       return hc_head_backward(head_of(context, w, in, a, row, rows), gradients);
                     gradients.dpost = d.post + row * streams;
                     gradients.dcomb = d.comb + row * streams * streams;
                     if (in.pre != nullptr) gradients.dpre = d.pre + row * streams;
                     hc_pre_backward(entry_of(context, w, in, a, row, rows), gradients);
                   });
  const T* const sum = vectors.data();
  add_values(context.pool, sum, width, context.gradient(w.norm));
  if (mixes == 0) return;
  add_values(context.pool, sum + width, mixes, context.gradient(w.mixing.base));
  add_values(context.pool, sum + width + mixes, kind == SiteKind::kHead ? 1 : kScales,
             context.gradient(w.mixing.scale));
  context.linear_backward({n, config.hc_dim(), mixes}, in.x, w.mixing.fn, draw.data(), din.x);
}

template void site_forward(const GraphContext<float>&, SiteKind, const SiteRows&, const SiteInputs<float>&,
                           SiteActivations<float>&);
template void site_forward(const GraphContext<double>&, SiteKind, const SiteRows&, const SiteInputs<double>&,
                           SiteActivations<double>&);
template void site_backward(const GraphContext<float>&, SiteKind, const SiteRows&, const SiteInputs<float>&,
                            SiteActivations<float>&, const SiteGradients<float>&,
                            const SiteInputGradients<float>&);
template void site_backward(const GraphContext<double>&, SiteKind, const SiteRows&, const SiteInputs<double>&,
                            SiteActivations<double>&, const SiteGradients<double>&,
                            const SiteInputGradients<double>&);

}  // namespace baleen::graph
