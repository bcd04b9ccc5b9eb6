#include "trainer/graph/block.h"

#include "ops/hc_post/hc_post_backward.h"
#include "trainer/graph/attention.h"
#include "trainer/graph/engram.h"
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

/// The streams as the block's first mixing reads them: as they come, or with what n-grams add.
template <class T>
const T* entering(const GraphContext<T>& context, std::int64_t block, const StreamValues<T>& in,
                  const BlockActivations<T>& a) {
  return context.config.engram_table(block) ? a.engram.streams.data() : in.x.data();
}

}  // namespace

template <class T>
void block_forward(const GraphContext<T>& context, std::int64_t block, const BlockRows& w,
                   const StreamValues<T>& in, SharedOfBlocks<T>& shared, BlockActivations<T>& a,
                   StreamValues<T>& out) {
  const std::int64_t n = context.tokens();
  context.enter(ModelPart::kMixing, block);
  if (const auto table = context.config.engram_table(block))
    engram_forward(context, *table, w.engram, in.x.data(), a.engram);
  const T* const x = entering(context, block, in, a);
  site_forward<T>(context, SiteKind::kHalfBlock, SiteRows{w.hc_attn, w.attn_norm}, {x, in.pre}, a.attn_site);
  context.enter(ModelPart::kAttention, block);
  attention_forward(context, block, w.attention, a.attn_site.normed.data(), shared, a.attention,
                    resized(a.attn_out, n * context.config.hidden_size));
  context.enter(ModelPart::kMixing, block);
  leave(context, a.attn_site, x, a.attn_out.data(), resized(a.middle, n * context.config.hc_dim()));
  site_forward<T>(context, SiteKind::kHalfBlock, SiteRows{w.hc_ffn, w.ffn_norm},
                  {a.middle.data(), a.attn_site.pre}, a.ffn_site);
  context.enter(ModelPart::kExperts, block);
  experts_forward(context, block, w.moe, a.ffn_site.normed.data(), a.experts,
                  resized(a.ffn_out, n * context.config.hidden_size));
  context.enter(ModelPart::kMixing, block);
  leave(context, a.ffn_site, a.middle.data(), a.ffn_out.data(), resized(out.x, n * context.config.hc_dim()));
  if (in.pre.empty()) return;
  resized(out.pre, n * context.config.hc_mult);
  if (context.pool.compute()) std::ranges::copy(a.ffn_site.pre, out.pre.begin());
}

template <class T>
void block_backward(const GraphContext<T>& context, std::int64_t block, const BlockRows& w,
                    const StreamValues<T>& in, SharedOfBlocks<T>& shared, BlockActivations<T>& a,
                    const StreamValues<T>& dout, StreamValues<T>& din) {
  const std::int64_t n = context.tokens(), streams = context.config.hc_dim();
  const T* const x = entering(context, block, in, a);
  Values<T> dmiddle;
  Values<T> dnormed;
  Values<T> dpre;  // of the weights that attention's mixing leaves to the experts'
  zeros(dmiddle, n * streams, context.pool);
  if (!in.pre.empty()) zeros(dpre, n * context.config.hc_mult);
  {
    const LeaveGradients<T> left(context, a.ffn_site, a.middle.data(), a.ffn_out.data(), dout.x.data(),
                                 dmiddle.data());
    experts_backward(context, w.moe, a.ffn_site.normed.data(), a.experts, left.df.data(),
                     zeros(dnormed, n * context.config.hidden_size, context.pool));
    site_backward<T>(context, SiteKind::kHalfBlock, SiteRows{w.hc_ffn, w.ffn_norm},
                     {a.middle.data(), a.attn_site.pre}, a.ffn_site,
                     {dnormed.data(), left.dpost.data(), left.dcomb.data(), dout.pre.data()},
                     {dmiddle.data(), dpre.data()});
  }
  Values<T> dentering;  // where n-grams have added to the streams
  const auto table = context.config.engram_table(block);
  T* const dx = table ? zeros(dentering, n * streams, context.pool) : din.x.data();
  const LeaveGradients<T> left(context, a.attn_site, x, a.attn_out.data(), dmiddle.data(), dx);
  attention_backward(context, block, w.attention, a.attn_site.normed.data(), shared, a.attention,
                     left.df.data(), zeros(dnormed, n * context.config.hidden_size, context.pool));
  site_backward<T>(context, SiteKind::kHalfBlock, SiteRows{w.hc_attn, w.attn_norm}, {x, in.pre}, a.attn_site,
                   {dnormed.data(), left.dpost.data(), left.dcomb.data(), dpre.data()}, {dx, din.pre.data()});
  if (table)
    engram_backward(context, *table, w.engram, in.x.data(), a.engram, dentering.data(), din.x.data());
}

template <class T>
void zero_streams(const GraphContext<T>& context, StreamValues<T>& values) {
  zeros(values.x, context.tokens() * context.config.hc_dim(), context.pool);
  if (context.config.lags_mixing()) zeros(values.pre, context.tokens() * context.config.hc_mult);
}

template void block_forward(const GraphContext<float>&, std::int64_t, const BlockRows&,
                            const StreamValues<float>&, SharedOfBlocks<float>&, BlockActivations<float>&,
                            StreamValues<float>&);
template void block_forward(const GraphContext<double>&, std::int64_t, const BlockRows&,
                            const StreamValues<double>&, SharedOfBlocks<double>&, BlockActivations<double>&,
                            StreamValues<double>&);
template void block_backward(const GraphContext<float>&, std::int64_t, const BlockRows&,
                             const StreamValues<float>&, SharedOfBlocks<float>&, BlockActivations<float>&,
                             const StreamValues<float>&, StreamValues<float>&);
template void block_backward(const GraphContext<double>&, std::int64_t, const BlockRows&,
                             const StreamValues<double>&, SharedOfBlocks<double>&, BlockActivations<double>&,
                             const StreamValues<double>&, StreamValues<double>&);
template void zero_streams(const GraphContext<float>&, StreamValues<float>&);
template void zero_streams(const GraphContext<double>&, StreamValues<double>&);

}  // namespace baleen::graph
