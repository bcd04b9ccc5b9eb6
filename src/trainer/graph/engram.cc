#include "trainer/graph/engram.h"

#include "ops/engram/stream_gates.h"

namespace baleen::graph {
namespace {

template <class T>
class Engram {
 public:
  Engram(const GraphContext<T>& context, std::size_t table, const EngramRows& w)
      : c_(context),
        config_(*context.config.engram),
        table_(static_cast<std::int64_t>(table)),
        values_(context.engram_tables[table]),
        w_(w),
        n_(context.tokens()) {}

  void forward(const T* x, EngramActivations<T>& a) const {
    T* const z = resized(a.z, n_ * row_values());
    const T* const table = c_.weight(values_);
    for_row_blocks(c_.pool, n_, [&](std::int64_t begin, std::int64_t rows) {
      for (std::int64_t i = begin * hashes(); i < (begin + rows) * hashes(); ++i)
        std::copy_n(table + row(i / hashes(), i % hashes()) * width(), width(), z + i * width());
    });
    c_.round_inputs(c_.config.dense_format, n_, row_values(), z);
    c_.linear("engram.wkv", n_, row_values(), projected_values(), z, w_.wkv,
              resized(a.projected, n_ * projected_values()));
    T* const streams = resized(a.streams, n_ * c_.config.hc_dim());
    if (c_.record() != nullptr) note_gates(x, a);
    for_row_blocks(c_.pool, n_, [&](std::int64_t begin, std::int64_t rows) {
      stream_gates_forward(gates(x, a, begin, rows), streams + begin * c_.config.hc_dim());
      c_.rounding.result(rows, c_.config.hc_dim(), streams + begin * c_.config.hc_dim());
    });
  }

  void backward(const T* x, const EngramActivations<T>& a, const T* dout, T* dx) const {
    Values<T> dprojected;
    Values<T> dweights;  // of queries, then of keys
    Values<T> dz;
    zeros(dprojected, n_ * projected_values(), c_.pool);
    const std::int64_t streams = c_.config.hc_dim();
    zeros(dweights, 2 * streams);
    sum_over_rows<T>(
        c_.pool, n_, 2 * streams, dweights.data(), [&](std::int64_t begin, std::int64_t rows, T* partial) {
          stream_gates_backward(gates(x, a, begin, rows), dout + begin * streams, dx + begin * streams,
                                dprojected.data() + begin * projected_values(), partial, partial + streams);
        });
    add_values(c_.pool, dweights.data(), streams, c_.gradient(w_.q_weight));
    add_values(c_.pool, dweights.data() + streams, streams, c_.gradient(w_.k_weight));
    c_.linear_backward(c_.linear_shape(n_, row_values(), projected_values()), a.z.data(), w_.wkv,
                       dprojected.data(), zeros(dz, n_ * row_values(), c_.pool));
    // Hashes have rows of their own, so threads take hashes; rows of one are summed in the order of tokens.
    T* const dtable = c_.gradient(values_);
    c_.pool.parallel_for(hashes(), [&](std::int64_t hash, int) {
      for (std::int64_t token = 0; token < n_; ++token) {
        const T* from = dz.data() + (token * hashes() + hash) * width();
        T* to = dtable + row(token, hash) * width();
        for (std::int64_t i = 0; i < width(); ++i) to[i] += from[i];
      }
    });
  }

 private:
  [[nodiscard]] std::int64_t hashes() const { return config_.num_hashes(); }
  [[nodiscard]] std::int64_t width() const { return config_.head_dim; }
  [[nodiscard]] std::int64_t row_values() const { return hashes() * width(); }
  [[nodiscard]] std::int64_t projected_values() const {
    return (c_.config.hc_mult + 1) * c_.config.hidden_size;
  }
  [[nodiscard]] std::int64_t row(std::int64_t token, std::int64_t hash) const {
    const auto tables = static_cast<std::int64_t>(c_.engram_tables.size());
    return c_.ngram_rows[static_cast<std::size_t>((token * tables + table_) * hashes() + hash)];
  }

  [[nodiscard]] StreamGateValues<T> gates(const T* x, const EngramActivations<T>& a, std::int64_t begin,
                                          std::int64_t rows) const {
    return {.rows = rows,
            .streams = c_.config.hc_mult,
            .width = c_.config.hidden_size,
            .tokens = c_.batch.tokens.data() + begin,
            .image_token = static_cast<TokenId>(config_.image_token_id),
            .x = x + begin * c_.config.hc_dim(),
            .projected = a.projected.data() + begin * projected_values(),
            .q_weight = c_.weight(w_.q_weight),
            .k_weight = c_.weight(w_.k_weight),
            .eps = static_cast<float>(c_.config.rms_norm_eps)};
  }

  void note_gates(const T* x, const EngramActivations<T>& a) const {
    if constexpr (std::is_same_v<T, float>) {
      const StreamGateValues<float> values = gates(x, a, 0, n_);
      c_.record()->add("stream_gates", "", n_, stream_gates_cost(values), stream_gates_backward_cost(values));
    }
  }

  const GraphContext<T>& c_;
  const EngramConfig& config_;
  std::int64_t table_;
  TensorRow values_;  ///< the table
  const EngramRows& w_;
  std::int64_t n_;
};

}  // namespace

template <class T>
void engram_forward(const GraphContext<T>& context, std::size_t table, const EngramRows& w, const T* x,
                    EngramActivations<T>& a) {
  Engram<T>(context, table, w).forward(x, a);
}

template <class T>
void engram_backward(const GraphContext<T>& context, std::size_t table, const EngramRows& w, const T* x,
                     const EngramActivations<T>& a, const T* dout, T* dx) {
  Engram<T>(context, table, w).backward(x, a, dout, dx);
}

template void engram_forward(const GraphContext<float>&, std::size_t, const EngramRows&, const float*,
                             EngramActivations<float>&);
template void engram_forward(const GraphContext<double>&, std::size_t, const EngramRows&, const double*,
                             EngramActivations<double>&);
template void engram_backward(const GraphContext<float>&, std::size_t, const EngramRows&, const float*,
                              const EngramActivations<float>&, const float*, float*);
template void engram_backward(const GraphContext<double>&, std::size_t, const EngramRows&, const double*,
                              const EngramActivations<double>&, const double*, double*);

}  // namespace baleen::graph
