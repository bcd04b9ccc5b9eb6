#include "trainer/graph/attention.h"

#include <cmath>
#include <numeric>

#include "ops/compressor/compressor_backward.h"
#include "ops/dense_attention/dense_attention.h"
#include "ops/dense_product/dense_product.h"
#include "ops/linear/linear_backward.h"
#include "ops/rms_norm/rms_norm_backward.h"
#include "ops/rope/rope_backward.h"

namespace baleen::graph {
namespace {

template <class T>
class Attention {
 public:
  Attention(const GraphContext<T>& context, std::int64_t block)
      : c_(context),
        config_(context.config),
        shape_(context.config.attention(block)),
        rope_(context.ropes[static_cast<int>(shape_.rope)]),
        n_(context.tokens()) {}

  void forward(const BlockWeights<const T>& w, const T* x, AttentionActivations<T>& a, T* out) const {
    const T* in = c_.rounded_input(config_.dense_format, x, a.x_rounded);
    queries(w, in, a);
    keys(w, in, a);
    layout(a);
    if (shape_.compresses()) compress(w.compressor, kLatent, x, a.entry_begin, a.compressor);
    select(w, x, a);
    resized(a.o, n_ * q_dim());
    resized(a.lse, n_ * shape_.num_heads);
    c_.pool.parallel_for(c_.documents(), [&](std::int64_t i, int) {
      const std::int64_t begin = c_.document(i).begin;
      dense_attention_forward(of_document(w, a, i), a.o.data() + begin * q_dim(),
                              a.lse.data() + begin * shape_.num_heads);
    });
    a.rotated = a.o;
    c_.round_results(n_, q_dim(), a.rotated.data());
    rotate_result(a.rotated.data(), shape_.num_heads, shape_.head_dim, true);
    resized(a.grouped, n_ * config_.o_dim());
    for (std::int64_t group = 0; group < config_.o_groups; ++group) {
      linear_forward(group_shape(), a.rotated.data() + group * config_.group_dim(),
                     w.wo_a + group * config_.o_lora_rank * config_.group_dim(),
                     a.grouped.data() + group * config_.o_lora_rank, c_.pool);
    }
    c_.round_results(n_, config_.o_dim(), a.grouped.data());
    c_.round_inputs(config_.dense_format, n_, config_.o_dim(), a.grouped.data());
    linear_forward<T>({n_, config_.o_dim(), config_.hidden_size}, a.grouped.data(), w.wo_b, out, c_.pool);
    c_.round_results(n_, config_.hidden_size, out);
  }

  void backward(const BlockWeights<const T>& w, const BlockWeights<T>& g, const T* x,
                const AttentionActivations<T>& a, const T* dout, T* dx) const {
    Values<T> d_grouped;
    Values<T> d_o;
    zeros(d_grouped, n_ * config_.o_dim(), c_.pool);
    zeros(d_o, n_ * q_dim(), c_.pool);
    linear_backward<T>({n_, config_.o_dim(), config_.hidden_size}, a.grouped.data(), w.wo_b, dout,
                       d_grouped.data(), g.wo_b, c_.pool);
    for (std::int64_t group = 0; group < config_.o_groups; ++group) {
      const std::int64_t rows = group * config_.o_lora_rank * config_.group_dim();
      linear_backward(group_shape(), a.rotated.data() + group * config_.group_dim(), w.wo_a + rows,
                      d_grouped.data() + group * config_.o_lora_rank,
                      d_o.data() + group * config_.group_dim(), g.wo_a + rows, c_.pool);
    }
    rotate(d_o.data(), shape_.num_heads, shape_.head_dim, false);
    Values<T> dq;
    Values<T> dkv;
    Values<T> dentry;
    core_backward(w, g, a, d_o, dq, dkv, dentry);
    const T* in = c_.rounding.rounds_inputs(config_.dense_format) ? a.x_rounded.data() : x;
    queries_backward(w, g, in, a, dq, dx);
    keys_backward(w, g, in, a, dkv, dx);
    if (shape_.compresses()) {
      compress_backward(w.compressor, g.compressor, shape_.head_dim, x, a.entry_begin, a.compressor, dentry,
                        dx);
    }
  }

 private:
  [[nodiscard]] std::int64_t q_dim() const { return config_.q_dim(); }
  [[nodiscard]] LinearShape<T> group_shape() const {
    return {.rows = n_,
            .in = config_.group_dim(),
            .out = config_.o_lora_rank,
            .x_stride = q_dim(),
            .y_stride = config_.o_dim()};
  }

  void rotate(T* x, std::int64_t heads, std::int64_t width, bool inverse) const {
    const std::int64_t pairs = shape_.rope_dim / 2;
    for_row_blocks(c_.pool, n_, [&](std::int64_t row, std::int64_t rows) {
      rope_rotate(rows, heads, width, shape_.rope_dim, rope_.cosine.data() + row * pairs,
                  rope_.sine.data() + row * pairs, inverse, x + row * heads * width);
    });
  }

  /// The same in the forward: what comes out is a result.
  void rotate_result(T* x, std::int64_t heads, std::int64_t width, bool inverse) const {
    rotate(x, heads, width, inverse);
    c_.round_results(n_, heads * width, x);
  }

  void norm(std::int64_t rows, std::int64_t width, const T* x, const T* w, T* y) const {
    for_row_blocks(c_.pool, rows, [&](std::int64_t row, std::int64_t count) {
      if (w == nullptr && c_.rounding.norm_heads(count, width, x + row * width, y + row * width)) return;
      rms_norm_forward(count, width, x + row * width, w, config_.rms_norm_eps, y + row * width);
      c_.rounding.result(count, width, y + row * width);
    });
  }
  void norm_backward(std::int64_t rows, std::int64_t width, const T* x, const T* w, const T* dy, T* dx,
                     T* dw) const {
    sum_over_rows<T>(c_.pool, rows, w != nullptr ? width : 0, dw,
                     [&](std::int64_t row, std::int64_t count, T* partial) {
                       rms_norm_backward(count, width, x + row * width, w, config_.rms_norm_eps,
                                         dy + row * width, dx + row * width, partial);
                     });
  }

  void queries(const BlockWeights<const T>& w, const T* x, AttentionActivations<T>& a) const {
    const std::int64_t rank = config_.q_lora_rank;
    linear_forward<T>({n_, config_.hidden_size, rank}, x, w.wq_a, resized(a.q_latent, n_ * rank), c_.pool);
    c_.round_results(n_, rank, a.q_latent.data());
    norm(n_, rank, a.q_latent.data(), w.q_norm, resized(a.q_latent_normed, n_ * rank));
    c_.round_inputs(config_.dense_format, n_, rank, a.q_latent_normed.data());
    linear_forward<T>({n_, rank, q_dim()}, a.q_latent_normed.data(), w.wq_b, resized(a.q_raw, n_ * q_dim()),
                      c_.pool);
    c_.round_results(n_, q_dim(), a.q_raw.data());
    norm(n_ * shape_.num_heads, shape_.head_dim, a.q_raw.data(), nullptr, resized(a.q, n_ * q_dim()));
    rotate_result(a.q.data(), shape_.num_heads, shape_.head_dim, false);
  }
  void queries_backward(const BlockWeights<const T>& w, const BlockWeights<T>& g, const T* x,
                        const AttentionActivations<T>& a, Values<T>& dq, T* dx) const {
    const std::int64_t rank = config_.q_lora_rank;
    rotate(dq.data(), shape_.num_heads, shape_.head_dim, true);
    Values<T> d_raw;
    Values<T> d_normed;
    Values<T> d_latent;
    norm_backward(n_ * shape_.num_heads, shape_.head_dim, a.q_raw.data(), nullptr, dq.data(),
                  zeros(d_raw, n_ * q_dim(), c_.pool), nullptr);
    linear_backward<T>({n_, rank, q_dim()}, a.q_latent_normed.data(), w.wq_b, d_raw.data(),
                       zeros(d_normed, n_ * rank, c_.pool), g.wq_b, c_.pool);
    norm_backward(n_, rank, a.q_latent.data(), w.q_norm, d_normed.data(), zeros(d_latent, n_ * rank),
                  g.q_norm);
    linear_backward<T>({n_, config_.hidden_size, rank}, x, w.wq_a, d_latent.data(), dx, g.wq_a, c_.pool);
  }

  void keys(const BlockWeights<const T>& w, const T* x, AttentionActivations<T>& a) const {
    const std::int64_t width = shape_.head_dim;
    linear_forward<T>({n_, config_.hidden_size, width}, x, w.wkv, resized(a.kv_raw, n_ * width), c_.pool);
    c_.round_results(n_, width, a.kv_raw.data());
    norm(n_, width, a.kv_raw.data(), w.kv_norm, resized(a.kv, n_ * width));
    rotate_result(a.kv.data(), 1, width, false);
    for_row_blocks(c_.pool, n_, [&](std::int64_t row, std::int64_t rows) {
      c_.rounding.latent(rows, a.kv.data() + row * width);
    });
  }
  void keys_backward(const BlockWeights<const T>& w, const BlockWeights<T>& g, const T* x,
                     const AttentionActivations<T>& a, Values<T>& dkv, T* dx) const {
    const std::int64_t width = shape_.head_dim;
    rotate(dkv.data(), 1, width, true);
    Values<T> d_raw;
    norm_backward(n_, width, a.kv_raw.data(), w.kv_norm, dkv.data(), zeros(d_raw, n_ * width), g.kv_norm);
    linear_backward<T>({n_, config_.hidden_size, width}, x, w.wkv, d_raw.data(), dx, g.wkv, c_.pool);
  }

  /// Where each document's entries and its matrix of visible entries begin.
  void layout(AttentionActivations<T>& a) const {
    a.entry_begin.assign(1, 0);
    a.visible_begin.assign(1, 0);
    for (std::int64_t i = 0; i < c_.documents(); ++i) {
      const std::int64_t size = c_.document(i).end - c_.document(i).begin;
      const std::int64_t entries = shape_.num_entries(size);
      a.entry_begin.push_back(a.entry_begin.back() + entries);
      a.visible_begin.push_back(a.visible_begin.back() + size * entries);
    }
  }

  [[nodiscard]] PoolingValues<T> pooling(const CompressorWeights<const T>& w, std::int64_t width,
                                         const CompressorActivations<T>& a, std::int64_t i) const {
    const std::int64_t begin = c_.document(i).begin;
    PoolingValues<T> v{.tokens = c_.document(i).end - begin,
                       .ratio = shape_.ratio,
                       .width = width,
                       .overlaps = shape_.overlaps,
                       .ape = w.ape};
    v.k = a.k.data() + begin * v.columns();
    v.g = a.g.data() + begin * v.columns();
    return v;
  }

  /// Rotates the entries of document i, each at the position of its first token.
  void rotate_entries(std::int64_t i, std::int64_t count, std::int64_t width, bool inverse,
                      T* entries) const {
    const std::int64_t pairs = shape_.rope_dim / 2;
    for (std::int64_t j = 0; j < count; ++j) {
      const std::int64_t row = (c_.document(i).begin + j * shape_.ratio) * pairs;
      rope_rotate<T>(1, 1, width, shape_.rope_dim, rope_.cosine.data() + row, rope_.sine.data() + row,
                     inverse, entries + j * width);
    }
  }

  enum EntryKind : std::uint8_t { kLatent, kIndexKey };

  /// Pooled entries as the norm reads them. The pooling's backward wants them unrounded.
  Values<T> pooled_results(std::int64_t count, std::int64_t width, const T* e) const {
    Values<T> results(e, e + count * width);
    c_.rounding.result(count, width, results.data());
    return results;
  }

  void compress(const CompressorWeights<const T>& w, EntryKind kind, const T* x,
                const std::vector<std::int64_t>& entry_begin, CompressorActivations<T>& a) const {
    const std::int64_t width = kind == kLatent ? shape_.head_dim : shape_.index_dim;
    const std::int64_t columns = shape_.compressor_columns(width);
    linear_forward<T>({n_, config_.hidden_size, columns}, x, w.wkv, resized(a.k, n_ * columns), c_.pool);
    linear_forward<T>({n_, config_.hidden_size, columns}, x, w.wgate, resized(a.g, n_ * columns), c_.pool);
    resized(a.e, entry_begin.back() * width);
    resized(a.entry, entry_begin.back() * width);
    c_.pool.parallel_for(c_.documents(), [&](std::int64_t i, int) {
      const PoolingValues<T> v = pooling(w, width, a, i);
      const std::int64_t at = entry_begin[static_cast<std::size_t>(i)] * width;
      pooling_forward(v, a.e.data() + at);
      T* entries = a.entry.data() + at;
      rms_norm_forward(v.entries(), width, pooled_results(v.entries(), width, a.e.data() + at).data(), w.norm,
                       config_.rms_norm_eps, entries);
      c_.rounding.result(v.entries(), width, entries);
      rotate_entries(i, v.entries(), width, false, entries);
      c_.rounding.result(v.entries(), width, entries);
      kind == kLatent ? c_.rounding.latent(v.entries(), entries)
                      : c_.rounding.index_vectors(v.entries(), entries);
    });
  }
  void compress_backward(const CompressorWeights<const T>& w, const CompressorWeights<T>& g,
                         std::int64_t width, const T* x, const std::vector<std::int64_t>& entry_begin,
                         const CompressorActivations<T>& a, Values<T>& dentry, T* dx) const {
    const std::int64_t columns = shape_.compressor_columns(width);
    Values<T> dk;
    Values<T> dg;
    zeros(dk, n_ * columns, c_.pool);
    zeros(dg, n_ * columns, c_.pool);
    Values<T> vectors;  // of ape, then of the norm
    const std::int64_t ape_size = shape_.ratio * columns;
    zeros(vectors, ape_size + width);
    sum_over_items<T>(
        c_.pool, c_.documents(), ape_size + width, vectors.data(), [&](std::int64_t i, T* partial) {
          const PoolingValues<T> v = pooling(w, width, a, i);
          const std::int64_t at = entry_begin[static_cast<std::size_t>(i)] * width;
          const std::int64_t rows = c_.document(i).begin * columns;
          rotate_entries(i, v.entries(), width, true, dentry.data() + at);
          Values<T> de;
          zeros(de, v.entries() * width);
          rms_norm_backward(v.entries(), width, pooled_results(v.entries(), width, a.e.data() + at).data(),
                            w.norm, config_.rms_norm_eps, dentry.data() + at, de.data(), partial + ape_size);
          pooling_backward(v, a.e.data() + at, de.data(), dk.data() + rows, dg.data() + rows, partial);
        });
    for (std::int64_t i = 0; i < ape_size; ++i) g.ape[i] += vectors[static_cast<std::size_t>(i)];
    for (std::int64_t i = 0; i < width; ++i) g.norm[i] += vectors[static_cast<std::size_t>(ape_size + i)];
    linear_backward<T>({n_, config_.hidden_size, columns}, x, w.wkv, dk.data(), dx, g.wkv, c_.pool);
    linear_backward<T>({n_, config_.hidden_size, columns}, x, w.wgate, dg.data(), dx, g.wgate, c_.pool);
  }

  void select(const BlockWeights<const T>& w, const T* x, AttentionActivations<T>& a) const {
    zeros(a.visible, a.visible_begin.back());
    const bool scores = shape_.indexed && !c_.dense_attention && leaves_out(a);
    if (scores) {
      const std::int64_t width = config_.index_q_dim();
      linear_forward<T>({n_, config_.q_lora_rank, width}, a.q_latent_normed.data(), w.index_wq_b,
                        resized(a.index_q, n_ * width), c_.pool);
      c_.round_results(n_, width, a.index_q.data());
      rotate_result(a.index_q.data(), shape_.index_heads, shape_.index_dim, false);
      for_row_blocks(c_.pool, n_ * shape_.index_heads, [&](std::int64_t row, std::int64_t rows) {
        c_.rounding.index_vectors(rows, a.index_q.data() + row * shape_.index_dim);
      });
      linear_forward<T>({n_, config_.hidden_size, shape_.index_heads}, x, w.index_weights,
                        resized(a.index_weights, n_ * shape_.index_heads), c_.pool);
      c_.rounding.index_weights(n_, a.index_weights.data());
      compress(w.index_compressor, kIndexKey, x, a.entry_begin, a.index_compressor);
    }
    c_.pool.parallel_for(c_.documents(), [&](std::int64_t i, int) {
      for (std::int64_t t = 0; t < c_.document(i).end - c_.document(i).begin; ++t)
        select_row(scores, i, t, a);
    });
  }

  /// Σ_heads w relu(<q, k>) of a query and `count` entries from `first` on. The constant and the Hadamard
  /// transform of both sides, which inference has, change no order of scores; where the pass rounds, the
  /// transform is in q and k.
  Values<T> index_scores(std::int64_t row, std::int64_t first, std::int64_t count,
                         const AttentionActivations<T>& a) const {
    const std::int64_t heads = shape_.index_heads, width = shape_.index_dim;
    Values<T> dots;
    dense_product<T>({.m = heads,
                      .n = count,
                      .k = width,
                      .a = a.index_q.data() + row * heads * width,
                      .a_stride = width,
                      .b = a.index_compressor.entry.data() + first * width,
                      .b_stride = width,
                      .b_transposed = true,
                      .c = resized(dots, heads * count),
                      .c_stride = count});
    Values<T> score;
    zeros(score, count);
    for (std::int64_t head = 0; head < heads; ++head) {
      const T weight = a.index_weights[static_cast<std::size_t>(row * heads + head)];
      const T* of_head = dots.data() + head * count;
      for (std::int64_t j = 0; j < count; ++j)
        score[static_cast<std::size_t>(j)] += weight * std::max(of_head[j], T{0});
    }
    return score;
  }

  /// Whether a document has more entries than a query may select.
  [[nodiscard]] bool leaves_out(const AttentionActivations<T>& a) const {
    for (std::size_t i = 0; i + 1 < a.entry_begin.size(); ++i) {
      if (a.entry_begin[i + 1] - a.entry_begin[i] > shape_.top_k) return true;
    }
    return false;
  }

  /// Marks what the query at position t of document i sees: all complete entries, or the indexer's best.
  void select_row(bool scores, std::int64_t i, std::int64_t t, AttentionActivations<T>& a) const {
    const std::int64_t first = a.entry_begin[static_cast<std::size_t>(i)];
    const std::int64_t entries = a.entry_begin[static_cast<std::size_t>(i) + 1] - first;
    if (entries == 0) return;
    const std::int64_t complete = (t + 1) / shape_.ratio;
    std::uint8_t* marks = a.visible.data() + a.visible_begin[static_cast<std::size_t>(i)] + t * entries;
    if (!scores || complete <= shape_.top_k) {
      std::fill(marks, marks + complete, std::uint8_t{1});
      return;
    }
    const Values<T> score = index_scores(c_.document(i).begin + t, first, complete, a);
    std::vector<std::int64_t> order(score.size());
    std::iota(order.begin(), order.end(), 0);
    std::partial_sort(order.begin(), order.begin() + shape_.top_k, order.end(), [&](auto left, auto right) {
      const T l = score[static_cast<std::size_t>(left)];
      const T r = score[static_cast<std::size_t>(right)];
      return l > r || (l == r && left < right);
    });
    for (std::int64_t rank = 0; rank < shape_.top_k; ++rank) marks[order[static_cast<std::size_t>(rank)]] = 1;
  }

  [[nodiscard]] DenseAttentionValues<T> of_document(const BlockWeights<const T>& w,
                                                    const AttentionActivations<T>& a, std::int64_t i) const {
    const auto at = static_cast<std::size_t>(i);
    const std::int64_t begin = c_.document(i).begin;
    return {.tokens = c_.document(i).end - begin,
            .heads = shape_.num_heads,
            .width = shape_.head_dim,
            .window = shape_.window_tokens,
            .entries = a.entry_begin[at + 1] - a.entry_begin[at],
            .q = a.q.data() + begin * q_dim(),
            .kv = a.kv.data() + begin * shape_.head_dim,
            .entry = a.compressor.entry.data() + a.entry_begin[at] * shape_.head_dim,
            .visible = a.visible.data() + a.visible_begin[at],
            .sink = w.sink,
            .rounds_weights = c_.rounding.active()};
  }

  void core_backward(const BlockWeights<const T>& w, const BlockWeights<T>& g,
                     const AttentionActivations<T>& a, const Values<T>& d_o, Values<T>& dq, Values<T>& dkv,
                     Values<T>& dentry) const {
    zeros(dq, n_ * q_dim(), c_.pool);
    zeros(dkv, n_ * shape_.head_dim);
    zeros(dentry, a.entry_begin.back() * shape_.head_dim);
    sum_over_items<T>(c_.pool, c_.documents(), shape_.num_heads, g.sink, [&](std::int64_t i, T* dsink) {
      const std::int64_t begin = c_.document(i).begin;
      dense_attention_backward(
          of_document(w, a, i), a.o.data() + begin * q_dim(), a.lse.data() + begin * shape_.num_heads,
          d_o.data() + begin * q_dim(), dq.data() + begin * q_dim(), dkv.data() + begin * shape_.head_dim,
          dentry.data() + a.entry_begin[static_cast<std::size_t>(i)] * shape_.head_dim, dsink);
    });
  }

  const GraphContext<T>& c_;
  const ModelConfig& config_;
  LayerAttention shape_;
  const RopeTable<T>& rope_;
  std::int64_t n_;
};

}  // namespace

template <class T>
void attention_forward(const GraphContext<T>& context, std::int64_t block, const BlockWeights<const T>& w,
                       const T* x, AttentionActivations<T>& a, T* out) {
  Attention<T>(context, block).forward(w, x, a, out);
}

template <class T>
void attention_backward(const GraphContext<T>& context, std::int64_t block, const BlockWeights<const T>& w,
                        const BlockWeights<T>& g, const T* x, const AttentionActivations<T>& a, const T* dout,
                        T* dx) {
  Attention<T>(context, block).backward(w, g, x, a, dout, dx);
}

template void attention_forward(const GraphContext<float>&, std::int64_t, const BlockWeights<const float>&,
                                const float*, AttentionActivations<float>&, float*);
template void attention_forward(const GraphContext<double>&, std::int64_t, const BlockWeights<const double>&,
                                const double*, AttentionActivations<double>&, double*);
template void attention_backward(const GraphContext<float>&, std::int64_t, const BlockWeights<const float>&,
                                 const BlockWeights<float>&, const float*, const AttentionActivations<float>&,
                                 const float*, float*);
template void attention_backward(const GraphContext<double>&, std::int64_t, const BlockWeights<const double>&,
                                 const BlockWeights<double>&, const double*,
                                 const AttentionActivations<double>&, const double*, double*);

}  // namespace baleen::graph
