#include "ops/dense_attention/dense_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "numeric/bf16.h"
#include "numeric/row_math.h"
#include "numeric/row_rounding.h"
#include "ops/dense_product/dense_product.h"

namespace baleen {
namespace {

constexpr std::int64_t kRoundedKeys = 64;  ///< visible keys that the engine weighs at a time

/// One tile of queries with all their heads: rows [count, heads], whose scores are against the window's rows,
/// then against the entries up to the last that one of the queries sees. All heads have the same keys, so a
/// product takes all of them at once.
template <class T>
class QueryTile {
 public:
  QueryTile(const DenseAttentionValues<T>& v, std::int64_t begin)
      : v_(v),
        begin_(begin),
        count_(std::min(kAttentionTileQueries, v.tokens - begin)),
        first_key_(std::max<std::int64_t>(0, begin - v.window + 1)),
        window_keys_(begin + count_ - first_key_),
        entries_(seen_entries()),
        keys_(window_keys_ + entries_) {}

  /// to [rows, keys] = alpha queries keysᵀ
  void against_keys(const T* queries, T alpha, T* to) const {
    DenseProduct<T> p{.m = rows(),
                      .n = window_keys_,
                      .k = v_.width,
                      .a = queries + offset(),
                      .a_stride = v_.width,
                      .b = window(v_.kv),
                      .b_stride = v_.width,
                      .b_transposed = true,
                      .c = to,
                      .c_stride = keys_,
                      .alpha = alpha,
                      .operands = v_.operands};
    dense_product(p);
    p.n = entries_;
    p.b = v_.entry;
    p.c = to + window_keys_;
    dense_product(p);
  }

  /// queries (+)= alpha weights [rows, keys] values
  void weighted_values(const T* weights, T alpha, bool accumulate, T* queries) const {
    DenseProduct<T> p{.m = rows(),
                      .n = v_.width,
                      .k = window_keys_,
                      .a = weights,
                      .a_stride = keys_,
                      .b = window(v_.kv),
                      .b_stride = v_.width,
                      .c = queries + offset(),
                      .c_stride = v_.width,
                      .alpha = alpha,
                      .accumulate = accumulate,
                      .operands = v_.operands};
    dense_product(p);
    if (entries_ == 0) return;
    p.k = entries_;
    p.a = weights + window_keys_;
    p.b = v_.entry;
    p.accumulate = true;
    dense_product(p);
  }

  /// dkv, dentry += alpha weightsᵀ queries
  void to_keys(const T* weights, const T* queries, T alpha, T* dkv, T* dentry) const {
    DenseProduct<T> p{.m = window_keys_,
                      .n = v_.width,
                      .k = rows(),
                      .a = weights,
                      .a_stride = keys_,
                      .a_transposed = true,
                      .b = queries + offset(),
                      .b_stride = v_.width,
                      .c = window(dkv),
                      .c_stride = v_.width,
                      .alpha = alpha,
                      .accumulate = true,
                      .operands = v_.operands};
    dense_product(p);
    p.m = entries_;
    p.a = weights + window_keys_;
    p.c = dentry;
    dense_product(p);
  }

  /// What the query does not see becomes -inf, with a probability of 0.
  void mask(T* scores) const {
    constexpr T kUnseen = -std::numeric_limits<T>::infinity();
    for (std::int64_t row = 0; row < rows(); ++row) {
      const std::int64_t t = begin_ + row / v_.heads;
      T* s = scores + row * keys_;
      std::fill_n(s, std::max<std::int64_t>(0, t - v_.window + 1 - first_key_), kUnseen);
      std::fill(s + t + 1 - first_key_, s + window_keys_, kUnseen);
      const std::uint8_t* visible = v_.visible + t * v_.entries;
      for (std::int64_t i = 0; i < entries_; ++i) {
        if (visible[i] == 0) s[window_keys_ + i] = kUnseen;
      }
    }
  }

  /// share [tokens, entries] of the tile's queries = sums over heads of the entries' probabilities.
  void sum_heads(const T* probabilities, T* share) const {
    std::fill_n(share + begin_ * v_.entries, count_ * v_.entries, T{0});
    for (std::int64_t row = 0; row < rows(); ++row) {
      const T* of_entries = probabilities + row * keys_ + window_keys_;
      row_math::add_scaled(T{1}, of_entries, share + (begin_ + row / v_.heads) * v_.entries, entries_);
    }
  }

  [[nodiscard]] std::int64_t rows() const { return count_ * v_.heads; }
  [[nodiscard]] std::int64_t keys() const { return keys_; }
  [[nodiscard]] std::size_t size() const { return static_cast<std::size_t>(rows() * keys_); }
  /// The first row's place in [tokens, heads].
  [[nodiscard]] std::int64_t first_row() const { return begin_ * v_.heads; }

 private:
  [[nodiscard]] std::int64_t seen_entries() const {
    std::int64_t seen = 0;
    for (std::int64_t t = begin_; t < begin_ + count_; ++t) {
      std::int64_t last = v_.entries;
      while (last > seen && v_.visible[t * v_.entries + last - 1] == 0) --last;
      seen = std::max(seen, last);
    }
    return seen;
  }
  [[nodiscard]] std::int64_t offset() const { return first_row() * v_.width; }
  template <class U>
  [[nodiscard]] U* window(U* keys) const {
    return keys + first_key_ * v_.width;
  }

  const DenseAttentionValues<T>& v_;
  std::int64_t begin_, count_, first_key_, window_keys_, entries_, keys_;
};

void to_bf16(float* x, std::int64_t count) { row_rounding::to_bf16({x, static_cast<std::size_t>(count)}); }
void to_bf16(double* x, std::int64_t count) {
  std::transform(x, x + count, x, [](double value) { return round_bf16(static_cast<float>(value)); });
}

/// Scores become weights relative to the largest, `top`, in BF16 at the time of their block. Returns the sum
/// of the unrounded ones.
template <class T>
T rounded_weights(T top, T* s, std::int64_t keys) {
  constexpr T kUnseen = -std::numeric_limits<T>::infinity();
  T largest = kUnseen, sum = 0;
  for (std::int64_t begin = 0, end = 0; begin < keys; begin = end) {
    for (std::int64_t seen = 0; end < keys && seen < kRoundedKeys; ++end) {
      if (s[end] == kUnseen) continue;
      ++seen;
      largest = std::max(largest, s[end]);
    }
    const T correction = std::exp(largest - top);
    sum += correction * static_cast<T>(row_math::exp_and_sum(largest, s + begin, end - begin));
    to_bf16(s + begin, end - begin);
    row_math::scale(correction, s + begin, end - begin);
  }
  return sum;
}

template <class T>
T scale_of(const DenseAttentionValues<T>& v) {
  return T{1} / std::sqrt(static_cast<T>(v.width));
}

}  // namespace

template <class T>
void dense_attention_forward(const DenseAttentionValues<T>& v, T* o, T* lse, T* entry_share) {
  std::vector<T> p;
  for (std::int64_t begin = 0; begin < v.tokens; begin += kAttentionTileQueries) {
    const QueryTile<T> tile(v, begin);
    p.resize(tile.size());
    tile.against_keys(v.q, scale_of(v), p.data());
    tile.mask(p.data());
    for (std::int64_t row = 0; row < tile.rows(); ++row) {
      T* s = p.data() + row * tile.keys();
      const T top = *std::max_element(s, s + tile.keys());
      const T weights = v.rounds_weights ? rounded_weights(top, s, tile.keys())
                                         : row_math::exp_and_sum(top, s, tile.keys());
      const T sum = std::exp(v.sink[row % v.heads] - top) + weights;
      row_math::scale(T{1} / sum, s, tile.keys());
      lse[tile.first_row() + row] = top + std::log(sum);
    }
    tile.weighted_values(p.data(), T{1}, false, o);
    if (entry_share != nullptr) tile.sum_heads(p.data(), entry_share);
  }
}

template <class T>
void dense_attention_backward(const DenseAttentionValues<T>& v, const T* o, const T* lse, const T* d_o, T* dq,
                              T* dkv, T* dentry, T* dsink) {
  std::vector<T> p;
  std::vector<T> ds;
  for (std::int64_t begin = 0; begin < v.tokens; begin += kAttentionTileQueries) {
    const QueryTile<T> tile(v, begin);
    p.resize(tile.size());
    ds.resize(tile.size());
    tile.against_keys(v.q, scale_of(v), p.data());
    tile.mask(p.data());
    tile.against_keys(d_o, T{1}, ds.data());
    for (std::int64_t row = 0; row < tile.rows(); ++row) {
      const std::int64_t at = tile.first_row() + row;
      const T delta = row_math::dot(o + at * v.width, d_o + at * v.width, v.width);
      dsink[row % v.heads] -= std::exp(v.sink[row % v.heads] - lse[at]) * delta;
      T* probabilities = p.data() + row * tile.keys();
      T* gradients = ds.data() + row * tile.keys();
      row_math::exp_and_sum(lse[at], probabilities, tile.keys());
      for (std::int64_t i = 0; i < tile.keys(); ++i) gradients[i] = probabilities[i] * (gradients[i] - delta);
    }
    tile.weighted_values(ds.data(), scale_of(v), true, dq);
    tile.to_keys(p.data(), d_o, T{1}, dkv, dentry);
    tile.to_keys(ds.data(), v.q, scale_of(v), dkv, dentry);
  }
}

template void dense_attention_forward(const DenseAttentionValues<float>&, float*, float*, float*);
template void dense_attention_forward(const DenseAttentionValues<double>&, double*, double*, double*);
template void dense_attention_backward(const DenseAttentionValues<float>&, const float*, const float*,
                                       const float*, float*, float*, float*, float*);
template void dense_attention_backward(const DenseAttentionValues<double>&, const double*, const double*,
                                       const double*, double*, double*, double*, double*);

namespace {

/// Scores of all tiles: rows of queries with their heads, times keys.
double num_scores(const DenseAttentionValues<float>& v, std::int64_t ratio) {
  double scores = 0;
  for (std::int64_t begin = 0; begin < v.tokens; begin += kAttentionTileQueries) {
    const std::int64_t end = std::min(begin + kAttentionTileQueries, v.tokens);
    const std::int64_t window_keys = end - std::max<std::int64_t>(0, begin - v.window + 1);
    const std::int64_t entries = v.entries == 0 ? 0 : std::min(v.entries, end / ratio);
    scores += static_cast<double>((end - begin) * v.heads * (window_keys + entries));
  }
  return scores;
}

/// Of `count` float32 values.
double bytes_of_values(std::int64_t count) { return 4.0 * static_cast<double>(count); }

}  // namespace

OpCost dense_attention_cost(const DenseAttentionValues<float>& v, std::int64_t ratio) {
  const double scores = num_scores(v, ratio);
  const std::int64_t rows = v.tokens * v.heads;
  OpCost cost;
  cost.add_flops(math_format(v.operands), 2 * 2 * scores * static_cast<double>(v.width));
  // A score: mask, largest, difference, exponential, sum, division, and rounding. A row: the sink and the
  // log.
  cost.scalar_ops = (v.rounds_weights ? 7 : 6) * scores + 6 * static_cast<double>(rows);
  cost.read_bytes = bytes_of_values(rows * v.width + (v.tokens + v.entries) * v.width + v.heads) +
                    static_cast<double>(v.tokens * v.entries);
  cost.write_bytes = bytes_of_values(rows * v.width + rows);
  return cost;
}

OpCost dense_attention_backward_cost(const DenseAttentionValues<float>& v, std::int64_t ratio) {
  const double scores = num_scores(v, ratio);
  const std::int64_t rows = v.tokens * v.heads, keys = (v.tokens + v.entries) * v.width;
  OpCost cost;
  // Scores again, gradients of probabilities, of queries, and of keys in both roles.
  cost.add_flops(math_format(v.operands), 5 * 2 * scores * static_cast<double>(v.width));
  // A score: mask, difference, exponential, less delta, times the probability. A row: delta, the sink's
  // share.
  cost.scalar_ops = 5 * scores + static_cast<double>(rows) * (2 * static_cast<double>(v.width) + 4);
  cost.read_bytes =
      bytes_of_values(3 * rows * v.width + rows + keys + v.heads) + static_cast<double>(v.tokens * v.entries);
  cost.write_bytes = bytes_of_values(rows * v.width + keys);
  cost.accumulate_gradients(static_cast<double>(v.heads));
  return cost;
}

}  // namespace baleen
