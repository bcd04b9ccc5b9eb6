#include "trainer/graph/block.h"

#include "ops/hc_post/hc_post_backward.h"
#include "trainer/graph/attention.h"
#include "trainer/graph/experts.h"
#include "trainer/graph/plain_residual.h"
#include "trainer/graph/site.h"

namespace baleen::graph {
namespace {

/// The exit of a half-block over rows [row, row + rows): `out` [rows, n, d], null for the backward.
template <class T>
HcPostArgsOf<T> exit_of(const GraphContext<T>& context, const SiteActivations<T>& site, const T* x,
                        const T* f, std::int64_t row, std::int64_t rows, T* out) {
  const std::int64_t streams = context.config.hc_mult, width = context.config.hidden_size;
  return {.f = {f + row * width, {rows, width}},
          .post = {site.post.data() + row * streams, {rows, streams}},
          .comb = {site.comb.data() + row * streams * streams, {rows, streams, streams}},
          .precision = context.precision(),
          .streams = {out, {rows, streams, width}},
          .before = {x + row * streams * width, {rows, streams, width}}};
}

/// Leaves a half-block: out [N, n, d] of its streams x and its result f [N, d].
template <class T>
void leave(const GraphContext<T>& context, const SiteActivations<T>& site, const T* x, const T* f, T* out) {
  if (context.plain_residual) return plain_leave(context, x, f, out);
  context.template run<ops::HcPost>(exit_of(context, site, x, f, 0, context.tokens(), out));
}

/// Gradients of what `leave` read: of f, post and comb set, of x added to dx.
template <class T>
struct LeaveGradients {
  Values<T> df, dpost, dcomb;

  LeaveGradients(const GraphContext<T>& context, const SiteActivations<T>& site, const T* x, const T* f,
                 const T* dout, T* dx) {
    const ModelConfig& config = context.config;
    const std::int64_t streams = config.hc_mult;
    zeros(df, context.tokens() * config.hidden_size, context.pool);
    if (context.plain_residual) {
      plain_leave_backward(context, dout, dx, df.data());
      return;
    }
    zeros(dpost, context.tokens() * streams);
    zeros(dcomb, context.tokens() * streams * streams);
    for_row_blocks(context.pool, context.tokens(), [&](std::int64_t row, std::int64_t rows) {
      T* const no_result = nullptr;
      hc_post_backward(exit_of(context, site, x, f, row, rows, no_result), dout + row * config.hc_dim(),
                       dx + row * config.hc_dim(), df.data() + row * config.hidden_size,
                       dpost.data() + row * streams, dcomb.data() + row * streams * streams);
    });
  }
};

}  // namespace

template <class T>
void block_forward(const GraphContext<T>& context, std::int64_t block, const BlockRows& w, const T* x,
                   BlockActivations<T>& a, T* out) {
  const std::int64_t n = context.tokens();
  context.enter(ModelPart::kMixing, block);
  site_forward(context, SiteKind::kHalfBlock, SiteRows{w.hc_attn, w.attn_norm}, x, a.attn_site);
  context.enter(ModelPart::kAttention, block);
  attention_forward(context, block, w.attention, a.attn_site.normed.data(), a.attention,
                    resized(a.attn_out, n * context.config.hidden_size));
  context.enter(ModelPart::kMixing, block);
  leave(context, a.attn_site, x, a.attn_out.data(), resized(a.middle, n * context.config.hc_dim()));
  site_forward(context, SiteKind::kHalfBlock, SiteRows{w.hc_ffn, w.ffn_norm}, a.middle.data(), a.ffn_site);
  context.enter(ModelPart::kExperts, block);
  experts_forward(context, block, w.moe, a.ffn_site.normed.data(), a.experts,
                  resized(a.ffn_out, n * context.config.hidden_size));
  context.enter(ModelPart::kMixing, block);
  leave(context, a.ffn_site, a.middle.data(), a.ffn_out.data(), out);
}

template <class T>
void block_backward(const GraphContext<T>& context, std::int64_t block, const BlockRows& w, const T* x,
                    BlockActivations<T>& a, const T* dout, T* dx) {
  const std::int64_t n = context.tokens();
  Values<T> dmiddle;
  Values<T> dnormed;
  zeros(dmiddle, n * context.config.hc_dim(), context.pool);
  {
    const LeaveGradients<T> left(context, a.ffn_site, a.middle.data(), a.ffn_out.data(), dout,
                                 dmiddle.data());
    experts_backward(context, w.moe, a.ffn_site.normed.data(), a.experts, left.df.data(),
                     zeros(dnormed, n * context.config.hidden_size, context.pool));
    site_backward(context, SiteKind::kHalfBlock, SiteRows{w.hc_ffn, w.ffn_norm}, a.middle.data(), a.ffn_site,
                  dnormed.data(), left.dpost.data(), left.dcomb.data(), dmiddle.data());
  }
  const LeaveGradients<T> left(context, a.attn_site, x, a.attn_out.data(), dmiddle.data(), dx);
  attention_backward(context, block, w.attention, a.attn_site.normed.data(), a.attention, left.df.data(),
                     zeros(dnormed, n * context.config.hidden_size, context.pool));
  site_backward(context, SiteKind::kHalfBlock, SiteRows{w.hc_attn, w.attn_norm}, x, a.attn_site,
                dnormed.data(), left.dpost.data(), left.dcomb.data(), dx);
}

template void block_forward(const GraphContext<float>&, std::int64_t, const BlockRows&, const float*,
                            BlockActivations<float>&, float*);
template void block_forward(const GraphContext<double>&, std::int64_t, const BlockRows&, const double*,
                            BlockActivations<double>&, double*);
template void block_backward(const GraphContext<float>&, std::int64_t, const BlockRows&, const float*,
                             BlockActivations<float>&, const float*, float*);
template void block_backward(const GraphContext<double>&, std::int64_t, const BlockRows&, const double*,
                             BlockActivations<double>&, const double*, double*);

}  // namespace baleen::graph
