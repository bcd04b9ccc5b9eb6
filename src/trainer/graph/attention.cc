#include "trainer/graph/attention.h"

#include "ops/dense_attention/dense_attention.h"
#include "ops/grouped_linear/grouped_linear.h"
#include "ops/linear/linear_backward.h"
#include "trainer/graph/compressor.h"
#include "trainer/graph/indexer.h"
#include "trainer/graph/latents.h"
#include "trainer/graph/rotation.h"

namespace baleen::graph {
namespace {

template <class T>
class Attention {
 public:
  Attention(const GraphContext<T>& context, std::int64_t block, SharedOfBlocks<T>& shared)
      : c_(context),
        config_(context.config),
        block_(block),
        shape_(context.config.attention(block)),
        shared_(shared),
        n_(context.tokens()) {}

  void forward(const AttentionRows& w, const T* x, AttentionActivations<T>& a, T* out) const {
    const T* in = c_.rounded_input(config_.dense_format, x, a.x_rounded);
    queries(w, in, a);
    keys(w, in, a);
    layout(a);
    if (shape_.makes_entries()) {
      has_latents()
          ? latents_forward(c_, shape_, w, x, a.entry_begin, a.latents, made_here())
          : compressor_forward(c_, shape_, EntryKind::kLatent, w.compressor, x, a.entry_begin, a.compressor);
    }
    select_entries(c_, block_, w, x, shared_, a);
    core(w, a);
    resized(a.rotated, n_ * q_dim());
    for_row_blocks(c_.pool, n_, [&](std::int64_t row, std::int64_t rows) {
      std::copy_n(a.o.data() + row * q_dim(), rows * q_dim(), a.rotated.data() + row * q_dim());
    });
    c_.round_results(n_, q_dim(), a.rotated.data());
    rotate_result(c_, shape_, shape_.num_heads, shape_.head_dim, true, a.rotated.data());
    resized(a.grouped, n_ * config_.o_dim());
    project_groups(c_.weight(w.wo_a), a);
    c_.round_inputs(config_.dense_format, n_, config_.o_dim(), a.grouped.data());
    c_.linear("wo_b", n_, config_.o_dim(), config_.hidden_size, a.grouped.data(), w.wo_b, out);
  }

  void backward(const AttentionRows& w, const T* x, const AttentionActivations<T>& a, const T* dout,
                T* dx) const {
    Values<T> d_grouped;
    Values<T> d_o;
    zeros(d_grouped, n_ * config_.o_dim(), c_.pool);
    zeros(d_o, n_ * q_dim(), c_.pool);
    c_.linear_backward(c_.linear_shape(n_, config_.o_dim(), config_.hidden_size), a.grouped.data(), w.wo_b,
                       dout, d_grouped.data());
    for (std::int64_t group = 0; c_.pool.compute() && group < config_.o_groups; ++group) {
      const std::int64_t rows = group * config_.o_lora_rank * config_.group_dim();
      linear_backward<T>(group_shape(), a.rotated.data() + group * config_.group_dim(),
                         c_.weight(w.wo_a) + rows, d_grouped.data() + group * config_.o_lora_rank,
                         d_o.data() + group * config_.group_dim(), c_.gradient(w.wo_a) + rows,
                         c_.pool.threads());
    }
    rotate_gradient(c_, shape_, shape_.num_heads, shape_.head_dim, true, d_o.data());
    Values<T> dq;
    Values<T> dkv;
    Values<T> own_dentry;
    const std::int64_t entry_values = a.entry_begin.back() * shape_.head_dim;
    T* const dentry = has_latents() ? summed(source().dentry, entry_values) : zeros(own_dentry, entry_values);
    core_backward(w, a, d_o, dq, dkv, dentry);
    const T* in = c_.rounding.rounds_inputs(config_.dense_format) ? a.x_rounded.data() : x;
    queries_backward(w, in, a, dq, dx);
    keys_backward(w, in, a, dkv, dx);
    if (shape_.compresses() && !has_latents()) {
      compressor_backward(c_, shape_, EntryKind::kLatent, w.compressor, x, a.entry_begin, a.compressor,
                          own_dentry, dx);
    }
    if (has_indexer_loss(c_, shape_)) indexer_backward(c_, block_, w, x, shared_, a);
    if (!has_latents() || !shape_.makes_entries()) return;
    latents_backward(c_, shape_, w, x, a.entry_begin, a.latents, made_here(), dx);
    if (c_.indexer_scale != 0) index_keys_backward(c_, block_, w, a.entry_begin, shared_);
  }

 private:
  [[nodiscard]] std::int64_t q_dim() const { return config_.q_dim(); }
  [[nodiscard]] bool has_latents() const {
    return shape_.has_entries() && shape_.entry_form == EntryForm::kLatent;
  }
  [[nodiscard]] SharedActivations<T>& made_here() const { return shared_[static_cast<std::size_t>(block_)]; }
  /// Of the block whose latents this one reads.
  [[nodiscard]] SharedActivations<T>& source() const {
    return shared_[static_cast<std::size_t>(shape_.entries_of(block_))];
  }
  [[nodiscard]] LinearShape group_shape() const {
    return {.rows = n_,
            .in = config_.group_dim(),
            .out = config_.o_lora_rank,
            .x_stride = q_dim(),
            .y_stride = config_.o_dim(),
            .operands = c_.operands};
  }

  void project_groups(const T* wo_a, AttentionActivations<T>& a) const {
    if constexpr (std::is_same_v<T, float>) {
      const WeightMatrix weight = float_matrix(config_.o_dim(), config_.group_dim(), wo_a);
      c_.executors.products.template execute<ops::GroupedLinear>(
          {.x = {a.rotated.data(), {n_, config_.o_groups, config_.group_dim()}},
           .weight = &weight,
           .y = {a.grouped.data(), {n_, config_.o_dim()}},
           .precision = c_.precision(),
           .name = "wo_a"});
    } else {
      for (std::int64_t group = 0; group < config_.o_groups; ++group) {
        dense_linear(group_shape(), a.rotated.data() + group * config_.group_dim(),
                     wo_a + group * config_.o_lora_rank * config_.group_dim(),
                     a.grouped.data() + group * config_.o_lora_rank, c_.pool.threads());
      }
      c_.round_results(n_, config_.o_dim(), a.grouped.data());
    }
  }

  void queries(const AttentionRows& w, const T* x, AttentionActivations<T>& a) const {
    const std::int64_t rank = config_.q_lora_rank;
    c_.linear("wq_a", n_, config_.hidden_size, rank, x, w.wq_a, resized(a.q_latent, n_ * rank));
    c_.norm(n_, rank, a.q_latent.data(), w.q_norm, resized(a.q_latent_normed, n_ * rank));
    c_.round_inputs(config_.dense_format, n_, rank, a.q_latent_normed.data());
    c_.linear("wq_b", n_, rank, q_dim(), a.q_latent_normed.data(), w.wq_b, resized(a.q_raw, n_ * q_dim()));
    resized(a.q, n_ * q_dim());
    if (shape_.norms_queries) {
      c_.norm(n_ * shape_.num_heads, shape_.head_dim, a.q_raw.data(), {}, a.q.data());
    } else {
      for_row_blocks(c_.pool, n_, [&](std::int64_t row, std::int64_t rows) {
        std::copy_n(a.q_raw.data() + row * q_dim(), rows * q_dim(), a.q.data() + row * q_dim());
      });
    }
    rotate_result(c_, shape_, shape_.num_heads, shape_.head_dim, false, a.q.data());
  }
  void queries_backward(const AttentionRows& w, const T* x, const AttentionActivations<T>& a, Values<T>& dq,
                        T* dx) const {
    const std::int64_t rank = config_.q_lora_rank;
    rotate_gradient(c_, shape_, shape_.num_heads, shape_.head_dim, false, dq.data());
    Values<T> d_raw;
    Values<T> d_normed;
    Values<T> d_latent;
    if (shape_.norms_queries) {
      c_.norm_backward(n_ * shape_.num_heads, shape_.head_dim, a.q_raw.data(), {}, dq.data(),
                       zeros(d_raw, n_ * q_dim(), c_.pool));
    } else {
      d_raw.swap(dq);
    }
    c_.linear_backward(c_.linear_shape(n_, rank, q_dim()), a.q_latent_normed.data(), w.wq_b, d_raw.data(),
                       zeros(d_normed, n_ * rank, c_.pool));
    c_.norm_backward(n_, rank, a.q_latent.data(), w.q_norm, d_normed.data(), zeros(d_latent, n_ * rank));
    c_.linear_backward(c_.linear_shape(n_, config_.hidden_size, rank), x, w.wq_a, d_latent.data(), dx);
  }

  void keys(const AttentionRows& w, const T* x, AttentionActivations<T>& a) const {
    const std::int64_t width = shape_.head_dim;
    c_.linear("wkv", n_, config_.hidden_size, width, x, w.wkv, resized(a.kv_raw, n_ * width));
    c_.norm(n_, width, a.kv_raw.data(), w.kv_norm, resized(a.kv, n_ * width));
    rotate_result(c_, shape_, 1, width, false, a.kv.data());
    for_row_blocks(c_.pool, n_, [&](std::int64_t row, std::int64_t rows) {
      c_.rounding.latent(shape_.window_row, rows, a.kv.data() + row * width);
    });
  }
  void keys_backward(const AttentionRows& w, const T* x, const AttentionActivations<T>& a, Values<T>& dkv,
                     T* dx) const {
    const std::int64_t width = shape_.head_dim;
    rotate_gradient(c_, shape_, 1, width, false, dkv.data());
    Values<T> d_raw;
    c_.norm_backward(n_, width, a.kv_raw.data(), w.kv_norm, dkv.data(), zeros(d_raw, n_ * width));
    c_.linear_backward(c_.linear_shape(n_, config_.hidden_size, width), x, w.wkv, d_raw.data(), dx);
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

  /// [M, c] that its queries see; null where there are none.
  [[nodiscard]] const T* entries(const AttentionActivations<T>& a) const {
    return has_latents() ? source().entry.data() : a.compressor.entry.data();
  }

  [[nodiscard]] DenseAttentionValues<T> of_document(const AttentionRows& w, const AttentionActivations<T>& a,
                                                    std::int64_t i) const {
    const auto at = static_cast<std::size_t>(i);
    const std::int64_t begin = c_.document(i).begin;
    return {.tokens = c_.document(i).end - begin,
            .heads = shape_.num_heads,
            .width = shape_.head_dim,
            .window = shape_.window_tokens,
            .entries = a.entry_begin[at + 1] - a.entry_begin[at],
            .q = a.q.data() + begin * q_dim(),
            .kv = a.kv.data() + begin * shape_.head_dim,
            .entry = entries(a) + a.entry_begin[at] * shape_.head_dim,
            .visible = a.visible.data() + a.visible_begin[at],
            .sink = c_.weight(w.sink),
            .rounds_weights = c_.rounding.active(),
            .operands = c_.operands};
  }

  void note_core(const AttentionRows& w, const AttentionActivations<T>& a) const {
    if constexpr (std::is_same_v<T, float>) {
      for (std::int64_t i = 0; i < c_.documents(); ++i) {
        const DenseAttentionValues<float> values = of_document(w, a, i);
        c_.record()->add("dense_attention", "", values.tokens, dense_attention_cost(values, shape_.ratio),
                         dense_attention_backward_cost(values, shape_.ratio));
      }
    }
  }

  void core(const AttentionRows& w, AttentionActivations<T>& a) const {
    if (c_.record() != nullptr) note_core(w, a);
    const bool has_loss = has_indexer_loss(c_, shape_);
    resized(a.o, n_ * q_dim());
    resized(a.lse, n_ * shape_.num_heads);
    if (has_loss) resized(a.entry_share, a.visible_begin.back());
    c_.pool.parallel_for(c_.documents(), [&](std::int64_t i, int) {
      const std::int64_t begin = c_.document(i).begin;
      T* share = has_loss ? a.entry_share.data() + a.visible_begin[static_cast<std::size_t>(i)] : nullptr;
      dense_attention_forward(of_document(w, a, i), a.o.data() + begin * q_dim(),
                              a.lse.data() + begin * shape_.num_heads, share);
    });
    a.indexer_loss = 0;
    if (has_loss) indexer_loss(c_, shape_, a);
  }

  void core_backward(const AttentionRows& w, const AttentionActivations<T>& a, const Values<T>& d_o,
                     Values<T>& dq, Values<T>& dkv, T* dentry) const {
    zeros(dq, n_ * q_dim(), c_.pool);
    zeros(dkv, n_ * shape_.head_dim);
    if (c_.record() != nullptr) {
      std::int64_t most = 0;
      for (std::int64_t i = 0; i < c_.documents(); ++i)
        most = std::max(most, dense_attention_tile_bytes(of_document(w, a, i)));
      c_.record()->scratch(c_.documents(), most);
    }
    sum_over_items<T>(
        c_.pool, c_.documents(), shape_.num_heads, c_.gradient(w.sink), [&](std::int64_t i, T* dsink) {
          const std::int64_t begin = c_.document(i).begin;
          dense_attention_backward(
              of_document(w, a, i), a.o.data() + begin * q_dim(), a.lse.data() + begin * shape_.num_heads,
              d_o.data() + begin * q_dim(), dq.data() + begin * q_dim(), dkv.data() + begin * shape_.head_dim,
              dentry + a.entry_begin[static_cast<std::size_t>(i)] * shape_.head_dim, dsink);
        });
  }

  const GraphContext<T>& c_;
  const ModelConfig& config_;
  std::int64_t block_;
  LayerAttention shape_;
  SharedOfBlocks<T>& shared_;
  std::int64_t n_;
};

}  // namespace

template <class T>
void attention_forward(const GraphContext<T>& context, std::int64_t block, const AttentionRows& w, const T* x,
                       SharedOfBlocks<T>& shared, AttentionActivations<T>& a, T* out) {
  Attention<T>(context, block, shared).forward(w, x, a, out);
}

template <class T>
void attention_backward(const GraphContext<T>& context, std::int64_t block, const AttentionRows& w,
                        const T* x, SharedOfBlocks<T>& shared, const AttentionActivations<T>& a,
                        const T* dout, T* dx) {
  Attention<T>(context, block, shared).backward(w, x, a, dout, dx);
}

template void attention_forward(const GraphContext<float>&, std::int64_t, const AttentionRows&, const float*,
                                SharedOfBlocks<float>&, AttentionActivations<float>&, float*);
template void attention_forward(const GraphContext<double>&, std::int64_t, const AttentionRows&,
                                const double*, SharedOfBlocks<double>&, AttentionActivations<double>&,
                                double*);
template void attention_backward(const GraphContext<float>&, std::int64_t, const AttentionRows&, const float*,
                                 SharedOfBlocks<float>&, const AttentionActivations<float>&, const float*,
                                 float*);
template void attention_backward(const GraphContext<double>&, std::int64_t, const AttentionRows&,
                                 const double*, SharedOfBlocks<double>&, const AttentionActivations<double>&,
                                 const double*, double*);

}  // namespace baleen::graph
