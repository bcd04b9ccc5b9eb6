#include "ops/dense_attention/dense_attention.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "ops/dense_product/dense_product.h"

namespace baleen {
namespace {

constexpr std::int64_t kTileQueries = 64;

/// One tile of queries of one head: scores against the window's rows, then against the entries.
template <class T>
class QueryTile {
 public:
  QueryTile(const DenseAttentionValues<T>& v, std::int64_t begin)
      : v_(v),
        begin_(begin),
        count_(std::min(kTileQueries, v.tokens - begin)),
        first_key_(std::max<std::int64_t>(0, begin - v.window + 1)),
        window_keys_(begin + count_ - first_key_),
        keys_(window_keys_ + v.entries) {}

  /// to [count, keys] = alpha rows keysᵀ, rows [count, heads x width] at head `head`.
  void against_keys(const T* rows, std::int64_t head, T alpha, T* to) const {
    DenseProduct<T> p{.m = count_,
                      .n = window_keys_,
                      .k = v_.width,
                      .a = at(rows, head),
                      .a_stride = v_.heads * v_.width,
                      .b = v_.kv + first_key_ * v_.width,
                      .b_stride = v_.width,
                      .b_transposed = true,
                      .c = to,
                      .c_stride = keys_,
                      .alpha = alpha};
    dense_product(p);
    p.n = v_.entries;
    p.b = v_.entry;
    p.c = to + window_keys_;
    dense_product(p);
  }

  /// rows (+)= alpha weights [count, keys] values
  void weighted_values(const T* weights, std::int64_t head, T alpha, bool accumulate, T* rows) const {
    DenseProduct<T> p{.m = count_,
                      .n = v_.width,
                      .k = window_keys_,
                      .a = weights,
                      .a_stride = keys_,
                      .b = v_.kv + first_key_ * v_.width,
                      .b_stride = v_.width,
                      .c = at(rows, head),
                      .c_stride = v_.heads * v_.width,
                      .alpha = alpha,
                      .accumulate = accumulate};
    dense_product(p);
    if (v_.entries == 0) return;
    p.k = v_.entries;
    p.a = weights + window_keys_;
    p.b = v_.entry;
    p.accumulate = true;
    dense_product(p);
  }

  /// dkv, dentry += alpha weightsᵀ rows
  void to_keys(const T* weights, const T* rows, std::int64_t head, T alpha, T* dkv, T* dentry) const {
    DenseProduct<T> p{.m = window_keys_,
                      .n = v_.width,
                      .k = count_,
                      .a = weights,
                      .a_stride = keys_,
                      .a_transposed = true,
                      .b = at(rows, head),
                      .b_stride = v_.heads * v_.width,
                      .c = dkv + first_key_ * v_.width,
                      .c_stride = v_.width,
                      .alpha = alpha,
                      .accumulate = true};
    dense_product(p);
    p.m = v_.entries;
    p.a = weights + window_keys_;
    p.c = dentry;
    dense_product(p);
  }

  [[nodiscard]] bool sees(std::int64_t row, std::int64_t key) const {
    const std::int64_t t = begin_ + row;
    if (key >= window_keys_) return v_.visible[t * v_.entries + key - window_keys_] != 0;
    return first_key_ + key <= t && first_key_ + key > t - v_.window;
  }
  [[nodiscard]] std::int64_t begin() const { return begin_; }
  [[nodiscard]] std::int64_t count() const { return count_; }
  [[nodiscard]] std::int64_t keys() const { return keys_; }
  [[nodiscard]] std::size_t size() const { return static_cast<std::size_t>(count_ * keys_); }

 private:
  template <class U>
  [[nodiscard]] U* at(U* rows, std::int64_t head) const {
    return rows + (begin_ * v_.heads + head) * v_.width;
  }

  const DenseAttentionValues<T>& v_;
  std::int64_t begin_, count_, first_key_, window_keys_, keys_;
};

template <class T>
T scale_of(const DenseAttentionValues<T>& v) {
  return T{1} / std::sqrt(static_cast<T>(v.width));
}

}  // namespace

template <class T>
void dense_attention_forward(const DenseAttentionValues<T>& v, T* o, T* lse) {
  std::vector<T> p;
  for (std::int64_t begin = 0; begin < v.tokens; begin += kTileQueries) {
    const QueryTile<T> tile(v, begin);
    p.resize(tile.size());
    for (std::int64_t head = 0; head < v.heads; ++head) {
      tile.against_keys(v.q, head, scale_of(v), p.data());
      for (std::int64_t row = 0; row < tile.count(); ++row) {
        T* s = p.data() + row * tile.keys();
        T top = -INFINITY;
        for (std::int64_t i = 0; i < tile.keys(); ++i) {
          if (tile.sees(row, i)) top = std::max(top, s[i]);
        }
        T sum = std::exp(v.sink[head] - top);
        for (std::int64_t i = 0; i < tile.keys(); ++i) {
          s[i] = tile.sees(row, i) ? std::exp(s[i] - top) : T{0};
          sum += s[i];
        }
        for (std::int64_t i = 0; i < tile.keys(); ++i) s[i] /= sum;
        lse[(begin + row) * v.heads + head] = top + std::log(sum);
      }
      tile.weighted_values(p.data(), head, T{1}, false, o);
    }
  }
}

template <class T>
void dense_attention_backward(const DenseAttentionValues<T>& v, const T* o, const T* lse, const T* d_o, T* dq,
                              T* dkv, T* dentry, T* dsink) {
  std::vector<T> p;
  std::vector<T> ds;
  for (std::int64_t begin = 0; begin < v.tokens; begin += kTileQueries) {
    const QueryTile<T> tile(v, begin);
    p.resize(tile.size());
    ds.resize(tile.size());
    for (std::int64_t head = 0; head < v.heads; ++head) {
      tile.against_keys(v.q, head, scale_of(v), p.data());
      tile.against_keys(d_o, head, T{1}, ds.data());
      for (std::int64_t row = 0; row < tile.count(); ++row) {
        const std::int64_t place = (begin + row) * v.heads + head;
        T delta = 0;
        for (std::int64_t i = 0; i < v.width; ++i) delta += o[place * v.width + i] * d_o[place * v.width + i];
        dsink[head] -= std::exp(v.sink[head] - lse[place]) * delta;
        for (std::int64_t i = row * tile.keys(), key = 0; key < tile.keys(); ++i, ++key) {
          const auto at = static_cast<std::size_t>(i);
          p[at] = tile.sees(row, key) ? std::exp(p[at] - lse[place]) : T{0};
          ds[at] = p[at] * (ds[at] - delta);
        }
      }
      tile.weighted_values(ds.data(), head, scale_of(v), true, dq);
      tile.to_keys(p.data(), d_o, head, T{1}, dkv, dentry);
      tile.to_keys(ds.data(), v.q, head, scale_of(v), dkv, dentry);
    }
  }
}

template void dense_attention_forward(const DenseAttentionValues<float>&, float*, float*);
template void dense_attention_forward(const DenseAttentionValues<double>&, double*, double*);
template void dense_attention_backward(const DenseAttentionValues<float>&, const float*, const float*,
                                       const float*, float*, float*, float*, float*);
template void dense_attention_backward(const DenseAttentionValues<double>&, const double*, const double*,
                                       const double*, double*, double*, double*, double*);

}  // namespace baleen
