#include "trainer/graph/latents.h"

#include "ops/compressor/compressor_backward.h"
#include "ops/linear/linear_backward.h"
#include "trainer/graph/rotation.h"

namespace baleen::graph {
namespace {

template <class T>
class Latents {
 public:
  Latents(const GraphContext<T>& context, const LayerAttention& shape, const AttentionRows& w,
          const std::vector<std::int64_t>& entry_begin)
      : c_(context), shape_(shape), w_(w), entry_begin_(entry_begin), n_(context.tokens()) {}

  void forward(const T* x, LatentActivations<T>& a, SharedActivations<T>& shared) const {
    const std::int64_t count = entry_begin_.back(), width = shape_.head_dim, d = c_.config.hidden_size;
    resized(a.k, n_ * width);
    if (pools()) {
      c_.linear_f32("compressor.wkv", n_, d, width, x, w_.compressor.wkv, a.k.data());
      c_.linear_f32("compressor.wgate", n_, d, width, x, w_.compressor.wgate, resized(a.g, n_ * width));
      resized(a.e, count * width);
      c_.pool.parallel_for(c_.documents(), [&](std::int64_t i, int) {
        pooling_forward(pooling(a, i), a.e.data() + place(i));
      });
      if (c_.record() != nullptr) note_pooling(a);
    } else {
      c_.linear("compressor.wkv", n_, d, width, x, w_.compressor.wkv, a.k.data());
    }
    if (pools() && c_.rounding.active()) {
      resized(a.e_rounded, count * width);
      for_row_blocks(c_.pool, count, [&](std::int64_t row, std::int64_t rows) {
        std::copy_n(a.e.data() + row * width, rows * width, a.e_rounded.data() + row * width);
      });
      c_.round_results(count, width, a.e_rounded.data());
    }
    c_.norm(count, width, before_norm(a), w_.compressor.norm, resized(shared.latent, count * width));
    if (c_.indexer_scale != 0 || !c_.dense_attention) make_keys(shared);
    T* const entries = resized(shared.entry, count * width);
    for_row_blocks(c_.pool, count, [&](std::int64_t row, std::int64_t rows) {
      std::copy_n(shared.latent.data() + row * width, rows * width, entries + row * width);
    });
    rotate(count, width, false, c_.precision(), entries);
    for_row_blocks(c_.pool, count, [&](std::int64_t row, std::int64_t rows) {
      c_.rounding.latent(shape_.entry_row, rows, entries + row * width);
    });
  }

  void backward(const T* x, const LatentActivations<T>& a, SharedActivations<T>& shared, T* dx) const {
    const std::int64_t count = entry_begin_.back(), width = shape_.head_dim, d = c_.config.hidden_size;
    T* const dlatent = summed(shared.dentry, count * width);
    if (c_.pool.compute()) rotate(count, width, true, Precision::kExact, dlatent);
    Values<T> de;
    Values<T> dk;
    Values<T> dg;
    zeros(de, count * width);
    c_.norm_backward(count, width, before_norm(a), w_.compressor.norm, dlatent, de.data());
    if (!pools()) {
      c_.linear_backward(c_.linear_shape(n_, d, width), x, w_.compressor.wkv, de.data(), dx);
      return;
    }
    zeros(dk, n_ * width, c_.pool);
    zeros(dg, n_ * width, c_.pool);
    c_.pool.parallel_for(c_.documents(), [&](std::int64_t i, int) {
      T* const no_biases = nullptr;
      const std::int64_t rows = c_.document(i).begin * width;
      pooling_backward(pooling(a, i), a.e.data() + place(i), de.data() + place(i), dk.data() + rows,
                       dg.data() + rows, no_biases);
    });
    c_.linear_backward({n_, d, width}, x, w_.compressor.wkv, dk.data(), dx);
    c_.linear_backward({n_, d, width}, x, w_.compressor.wgate, dg.data(), dx);
  }

  void keys_backward(std::int64_t block, const SharedOfBlocks<T>& shared) const {
    const std::int64_t count = entry_begin_.back(), width = shape_.index_dim;
    const SharedActivations<T>& made_here = shared[static_cast<std::size_t>(block)];
    Values<T> dkey;
    zeros(dkey, count * width);
    for (std::int64_t reader = block; reader < c_.config.num_hidden_layers; ++reader) {
      const LayerAttention shape = c_.config.attention(reader);
      if (shape.selects() && shape.entries_of(reader) == block)
        add_values(c_.pool, shared[static_cast<std::size_t>(reader)].dkey.data(), count * width, dkey.data());
    }
    if (c_.pool.compute()) rotate(count, width, true, Precision::kExact, dkey.data());
    Values<T> draw;
    zeros(draw, count * width);
    c_.norm_backward(count, width, made_here.key_raw.data(), w_.indexer.k_norm, dkey.data(), draw.data());
    T* const no_dx = nullptr;
    c_.linear_backward(c_.linear_shape(count, shape_.head_dim, width), made_here.latent.data(), w_.indexer.wk,
                       draw.data(), no_dx);
  }

 private:
  [[nodiscard]] bool pools() const { return shape_.ratio > 1; }
  /// What is normed: of one position its own row.
  [[nodiscard]] const T* before_norm(const LatentActivations<T>& a) const {
    if (!pools()) return a.k.data();
    return c_.rounding.active() ? a.e_rounded.data() : a.e.data();
  }
  /// Where document i's entries begin, in values.
  [[nodiscard]] std::int64_t place(std::int64_t i) const {
    return entry_begin_[static_cast<std::size_t>(i)] * shape_.head_dim;
  }

  /// The indexers' alone: what makes keys has no gradient but of their loss.
  void make_keys(SharedActivations<T>& shared) const {
    const RecordedTraining training(c_.record(), c_.indexer_scale != 0);
    const std::int64_t count = entry_begin_.back(), width = shape_.index_dim;
    c_.linear("indexer.wk", count, shape_.head_dim, width, shared.latent.data(), w_.indexer.wk,
              resized(shared.key_raw, count * width), false);
    c_.norm(count, width, shared.key_raw.data(), w_.indexer.k_norm, resized(shared.key, count * width));
    rotate(count, width, false, c_.precision(), shared.key.data());
    for_row_blocks(c_.pool, count, [&](std::int64_t row, std::int64_t rows) {
      c_.rounding.index_vectors(shape_.entry_form, rows, shared.key.data() + row * width);
    });
  }

  void rotate(std::int64_t count, std::int64_t width, bool inverse, Precision precision, T* rows) const {
    EntryAngles<T>(c_, shape_, entry_begin_).rotate(c_, count, width, inverse, precision, rows);
  }

  [[nodiscard]] PoolingValues<T> pooling(const LatentActivations<T>& a, std::int64_t i) const {
    const std::int64_t begin = c_.document(i).begin;
    return {.tokens = c_.document(i).end - begin,
            .ratio = shape_.ratio,
            .width = shape_.head_dim,
            .k = a.k.data() + begin * shape_.head_dim,
            .g = a.g.data() + begin * shape_.head_dim};
  }

  /// Of all documents together.
  void note_pooling(const LatentActivations<T>& a) const {
    if constexpr (std::is_same_v<T, float>) {
      OpCost forward, backward;
      for (std::int64_t i = 0; i < c_.documents(); ++i) {
        forward += pooling_cost(pooling(a, i));
        backward += pooling_backward_cost(pooling(a, i));
      }
      c_.record()->add("pooling", "compressor", n_, forward, backward);
    }
  }

  const GraphContext<T>& c_;
  const LayerAttention& shape_;
  const AttentionRows& w_;
  const std::vector<std::int64_t>& entry_begin_;
  std::int64_t n_;
};

}  // namespace

template <class T>
void latents_forward(const GraphContext<T>& context, const LayerAttention& shape, const AttentionRows& w,
                     const T* x, const std::vector<std::int64_t>& entry_begin, LatentActivations<T>& a,
                     SharedActivations<T>& shared) {
  Latents<T>(context, shape, w, entry_begin).forward(x, a, shared);
}

template <class T>
void latents_backward(const GraphContext<T>& context, const LayerAttention& shape, const AttentionRows& w,
                      const T* x, const std::vector<std::int64_t>& entry_begin, const LatentActivations<T>& a,
                      SharedActivations<T>& shared, T* dx) {
  Latents<T>(context, shape, w, entry_begin).backward(x, a, shared, dx);
}

template <class T>
void index_keys_backward(const GraphContext<T>& context, std::int64_t block, const AttentionRows& w,
                         const std::vector<std::int64_t>& entry_begin, const SharedOfBlocks<T>& shared) {
  const LayerAttention shape = context.config.attention(block);
  Latents<T>(context, shape, w, entry_begin).keys_backward(block, shared);
}

template void latents_forward(const GraphContext<float>&, const LayerAttention&, const AttentionRows&,
                              const float*, const std::vector<std::int64_t>&, LatentActivations<float>&,
                              SharedActivations<float>&);
template void latents_forward(const GraphContext<double>&, const LayerAttention&, const AttentionRows&,
                              const double*, const std::vector<std::int64_t>&, LatentActivations<double>&,
                              SharedActivations<double>&);
template void latents_backward(const GraphContext<float>&, const LayerAttention&, const AttentionRows&,
                               const float*, const std::vector<std::int64_t>&,
                               const LatentActivations<float>&, SharedActivations<float>&, float*);
template void latents_backward(const GraphContext<double>&, const LayerAttention&, const AttentionRows&,
                               const double*, const std::vector<std::int64_t>&,
                               const LatentActivations<double>&, SharedActivations<double>&, double*);
template void index_keys_backward(const GraphContext<float>&, std::int64_t, const AttentionRows&,
                                  const std::vector<std::int64_t>&, const SharedOfBlocks<float>&);
template void index_keys_backward(const GraphContext<double>&, std::int64_t, const AttentionRows&,
                                  const std::vector<std::int64_t>&, const SharedOfBlocks<double>&);

}  // namespace baleen::graph
