#include "trainer/graph/compressor.h"

#include "ops/compressor/compressor_backward.h"
#include "ops/linear/linear_backward.h"
#include "ops/rms_norm/rms_norm_backward.h"
#include "trainer/graph/rotation.h"

namespace baleen::graph {
namespace {

template <class T>
class Compressor {
 public:
  Compressor(const GraphContext<T>& context, const LayerAttention& shape, EntryKind kind,
             const CompressorRows& w, const std::vector<std::int64_t>& entry_begin)
      : c_(context),
        config_(context.config),
        shape_(shape),
        kind_(kind),
        w_(w),
        entry_begin_(entry_begin),
        width_(kind == EntryKind::kLatent ? shape.head_dim : shape.index_dim),
        columns_(shape.compressor_columns(width_)),
        n_(context.tokens()) {}

  void forward(const T* x, CompressorActivations<T>& a) const {
    const std::string_view name = kind_ == EntryKind::kLatent ? "compressor" : "indexer.compressor";
    const std::int64_t count = entry_begin_.back();
    const bool trains_input = kind_ == EntryKind::kLatent;
    c_.linear_f32(name, n_, config_.hidden_size, columns_, x, w_.wkv, resized(a.k, n_ * columns_),
                  trains_input);
    c_.linear_f32(name, n_, config_.hidden_size, columns_, x, w_.wgate, resized(a.g, n_ * columns_),
                  trains_input);
    resized(a.e, count * width_);
    T* const entries = resized(a.entry, count * width_);
    c_.pool.parallel_for(c_.documents(),
                         [&](std::int64_t i, int) { pooling_forward(pooling(a, i), a.e.data() + place(i)); });
    if (c_.record() != nullptr) note_pooling(name, a);
    c_.norm(count, width_, pooled_results(count, a.e.data()).data(), w_.norm, entries);
    EntryAngles<T>(c_, shape_, entry_begin_).rotate(c_, count, width_, false, c_.precision(), entries);
    for_row_blocks(c_.pool, count, [&](std::int64_t row, std::int64_t rows) {
      kind_ == EntryKind::kLatent
          ? c_.rounding.latent(shape_.entry_row, rows, entries + row * width_)
          : c_.rounding.index_vectors(shape_.entry_form, rows, entries + row * width_);
    });
  }

  void backward(const T* x, const CompressorActivations<T>& a, Values<T>& dentry, T* dx) const {
    Values<T> dk;
    Values<T> dg;
    zeros(dk, n_ * columns_, c_.pool);
    zeros(dg, n_ * columns_, c_.pool);
    Values<T> vectors;  // of ape, then of the norm
    const std::int64_t ape_size = shape_.ratio * columns_;
    zeros(vectors, ape_size + width_);
    const std::int64_t count = entry_begin_.back();
    if (kind_ == EntryKind::kIndexKey) {
      for_row_blocks(c_.pool, count, [&](std::int64_t row, std::int64_t rows) {
        c_.rounding.index_vectors_backward(shape_.entry_form, rows, dentry.data() + row * width_);
      });
    }
    if (c_.pool.compute()) {
      EntryAngles<T>(c_, shape_, entry_begin_)
          .rotate(c_, count, width_, true, Precision::kExact, dentry.data());
    }
    sum_over_items<T>(c_.pool, c_.documents(), ape_size + width_, vectors.data(),
                      [&](std::int64_t i, T* partial) {
                        const PoolingValues<T> v = pooling(a, i);
                        const T* pooled = a.e.data() + place(i);
                        const std::int64_t rows = c_.document(i).begin * columns_;
                        Values<T> de;
                        zeros(de, v.entries() * width_);
                        const Values<T> results = pooled_results(v.entries(), pooled);
                        rms_norm_backward(c_.norm_of(v.entries(), width_, results.data(), w_.norm),
                                          dentry.data() + place(i), de.data(), partial + ape_size);
                        pooling_backward(v, pooled, de.data(), dk.data() + rows, dg.data() + rows, partial);
                      });
    add_values(c_.pool, vectors.data(), ape_size, c_.gradient(w_.ape));
    add_values(c_.pool, vectors.data() + ape_size, width_, c_.gradient(w_.norm));
    c_.linear_backward({n_, config_.hidden_size, columns_}, x, w_.wkv, dk.data(), dx);
    c_.linear_backward({n_, config_.hidden_size, columns_}, x, w_.wgate, dg.data(), dx);
  }

 private:
  /// Where document i's entries begin, in values.
  [[nodiscard]] std::int64_t place(std::int64_t i) const {
    return entry_begin_[static_cast<std::size_t>(i)] * width_;
  }

  [[nodiscard]] PoolingValues<T> pooling(const CompressorActivations<T>& a, std::int64_t i) const {
    const std::int64_t begin = c_.document(i).begin;
    PoolingValues<T> v{.tokens = c_.document(i).end - begin,
                       .ratio = shape_.ratio,
                       .width = width_,
                       .overlaps = shape_.overlaps,
                       .ape = c_.weight(w_.ape)};
    v.k = a.k.data() + begin * v.columns();
    v.g = a.g.data() + begin * v.columns();
    return v;
  }

  /// Of all documents together.
  void note_pooling(std::string_view name, const CompressorActivations<T>& a) const {
    if constexpr (std::is_same_v<T, float>) {
      OpCost forward, backward;
      for (std::int64_t i = 0; i < c_.documents(); ++i) {
        forward += pooling_cost(pooling(a, i));
        backward += pooling_backward_cost(pooling(a, i));
      }
      c_.record()->add("pooling", std::string(name), n_, forward, backward);
    }
  }

  /// Pooled entries as the norm reads them. The pooling's backward wants them unrounded.
  Values<T> pooled_results(std::int64_t count, const T* e) const {
    Values<T> results;
    resized(results, count * width_);
    if (!c_.pool.compute()) return results;
    std::copy_n(e, count * width_, results.data());
    c_.rounding.result(count, width_, results.data());
    return results;
  }

  const GraphContext<T>& c_;
  const ModelConfig& config_;
  const LayerAttention& shape_;
  EntryKind kind_;
  const CompressorRows& w_;
  const std::vector<std::int64_t>& entry_begin_;
  std::int64_t width_, columns_, n_;
};

}  // namespace

template <class T>
void compressor_forward(const GraphContext<T>& context, const LayerAttention& shape, EntryKind kind,
                        const CompressorRows& w, const T* x, const std::vector<std::int64_t>& entry_begin,
                        CompressorActivations<T>& a) {
  Compressor<T>(context, shape, kind, w, entry_begin).forward(x, a);
}

template <class T>
void compressor_backward(const GraphContext<T>& context, const LayerAttention& shape, EntryKind kind,
                         const CompressorRows& w, const T* x, const std::vector<std::int64_t>& entry_begin,
                         const CompressorActivations<T>& a, Values<T>& dentry, T* dx) {
  Compressor<T>(context, shape, kind, w, entry_begin).backward(x, a, dentry, dx);
}

template void compressor_forward(const GraphContext<float>&, const LayerAttention&, EntryKind,
                                 const CompressorRows&, const float*, const std::vector<std::int64_t>&,
                                 CompressorActivations<float>&);
template void compressor_forward(const GraphContext<double>&, const LayerAttention&, EntryKind,
                                 const CompressorRows&, const double*, const std::vector<std::int64_t>&,
                                 CompressorActivations<double>&);
template void compressor_backward(const GraphContext<float>&, const LayerAttention&, EntryKind,
                                  const CompressorRows&, const float*, const std::vector<std::int64_t>&,
                                  const CompressorActivations<float>&, Values<float>&, float*);
template void compressor_backward(const GraphContext<double>&, const LayerAttention&, EntryKind,
                                  const CompressorRows&, const double*, const std::vector<std::int64_t>&,
                                  const CompressorActivations<double>&, Values<double>&, double*);

}  // namespace baleen::graph
