#include "ops/indexer_loss/index_scores.h"

#include <algorithm>
#include <vector>

#include "ops/dense_product/dense_product.h"

namespace baleen {
namespace {

constexpr std::int64_t kTileQueries = 64;

/// One tile of queries with all their heads against the entries that its last query sees.
template <class T>
class ScoreTile {
 public:
  ScoreTile(const IndexScoreValues<T>& v, std::int64_t begin)
      : v_(v),
        begin_(begin),
        end_(std::min(begin + kTileQueries, v.tokens)),
        entries_(v.complete(end_ - 1)),
        dots_(static_cast<std::size_t>((end_ - begin) * v.heads * entries_)) {
    dense_product<T>({.m = rows(),
                      .n = entries_,
                      .k = v.width,
                      .a = v.q + begin * v.heads * v.width,
                      .a_stride = v.width,
                      .b = v.k,
                      .b_stride = v.width,
                      .b_transposed = true,
                      .c = dots_.data(),
                      .c_stride = entries_,
                      .operands = v.operands});
  }

  void scores(T* score) const {
    for (std::int64_t t = begin_; t < end_; ++t) {
      T* of_query = score + t * v_.entries;
      const std::int64_t complete = v_.complete(t);
      std::fill_n(of_query, complete, T{0});
      for (std::int64_t head = 0; head < v_.heads; ++head) {
        const T* dots = of_head(t, head);
        const T weight = v_.weight[t * v_.heads + head];
        for (std::int64_t s = 0; s < complete; ++s) of_query[s] += weight * std::max(dots[s], T{0});
      }
    }
  }

  /// Products become their gradients; dweight +=.
  void backward(const T* dscore, T* dweight) {
    for (std::int64_t t = begin_; t < end_; ++t) {
      const T* of_query = dscore + t * v_.entries;
      const std::int64_t complete = v_.complete(t);
      for (std::int64_t head = 0; head < v_.heads; ++head) {
        T* dots = of_head(t, head);
        const T weight = v_.weight[t * v_.heads + head];
        T sum = 0;
        for (std::int64_t s = 0; s < complete; ++s) {
          sum += of_query[s] * std::max(dots[s], T{0});
          dots[s] = dots[s] > T{0} ? weight * of_query[s] : T{0};
        }
        std::fill(dots + complete, dots + entries_, T{0});
        dweight[t * v_.heads + head] += sum;
      }
    }
  }

  /// dq, dk += from the gradients of products.
  void to_queries_and_keys(T* dq, T* dk) const {
    dense_product<T>({.m = rows(),
                      .n = v_.width,
                      .k = entries_,
                      .a = dots_.data(),
                      .a_stride = entries_,
                      .b = v_.k,
                      .b_stride = v_.width,
                      .c = dq + begin_ * v_.heads * v_.width,
                      .c_stride = v_.width,
                      .accumulate = true,
                      .operands = v_.operands});
    dense_product<T>({.m = entries_,
                      .n = v_.width,
                      .k = rows(),
                      .a = dots_.data(),
                      .a_stride = entries_,
                      .a_transposed = true,
                      .b = v_.q + begin_ * v_.heads * v_.width,
                      .b_stride = v_.width,
                      .c = dk,
                      .c_stride = v_.width,
                      .accumulate = true,
                      .operands = v_.operands});
  }

 private:
  [[nodiscard]] std::int64_t rows() const { return (end_ - begin_) * v_.heads; }
  [[nodiscard]] std::int64_t place(std::int64_t t, std::int64_t head) const {
    return ((t - begin_) * v_.heads + head) * entries_;
  }
  [[nodiscard]] const T* of_head(std::int64_t t, std::int64_t head) const {
    return dots_.data() + place(t, head);
  }
  [[nodiscard]] T* of_head(std::int64_t t, std::int64_t head) { return dots_.data() + place(t, head); }

  const IndexScoreValues<T>& v_;
  std::int64_t begin_, end_, entries_;
  std::vector<T> dots_;  ///< [queries of the tile, heads, entries]
};

/// body(tile) for the tiles that see an entry.
template <class T, class Body>
void for_tiles(const IndexScoreValues<T>& v, Body&& body) {
  for (std::int64_t begin = 0; begin < v.tokens; begin += kTileQueries) {
    if (v.complete(std::min(begin + kTileQueries, v.tokens) - 1) > 0) body(ScoreTile<T>(v, begin));
  }
}

}  // namespace

template <class T>
void index_scores_forward(const IndexScoreValues<T>& v, T* score) {
  for_tiles(v, [&](const ScoreTile<T>& tile) { tile.scores(score); });
}

template <class T>
void index_scores_backward(const IndexScoreValues<T>& v, const T* dscore, T* dq, T* dk, T* dweight) {
  for_tiles(v, [&](ScoreTile<T> tile) {
    tile.backward(dscore, dweight);
    tile.to_queries_and_keys(dq, dk);
  });
}

template void index_scores_forward(const IndexScoreValues<float>&, float*);
template void index_scores_forward(const IndexScoreValues<double>&, double*);
template void index_scores_backward(const IndexScoreValues<float>&, const float*, float*, float*, float*);
template void index_scores_backward(const IndexScoreValues<double>&, const double*, double*, double*,
                                    double*);

namespace {

/// Products of queries and keys over all tiles, each of `width` multiply-adds.
double num_products(const IndexScoreValues<float>& v) {
  double products = 0;
  for (std::int64_t begin = 0; begin < v.tokens; begin += kTileQueries) {
    const std::int64_t end = std::min(begin + kTileQueries, v.tokens);
    products += static_cast<double>((end - begin) * v.heads * v.complete(end - 1));
  }
  return products;
}

double bytes_of_inputs(const IndexScoreValues<float>& v) {
  return 4.0 * static_cast<double>(v.tokens * v.heads * (v.width + 1) + v.entries * v.width);
}

}  // namespace

OpCost index_scores_cost(const IndexScoreValues<float>& v) {
  const double products = num_products(v);
  OpCost cost;
  cost.add_flops(math_format(v.operands), 2 * products * static_cast<double>(v.width));
  cost.scalar_ops = 3 * products;  // cut off at zero, weighted, added
  cost.read_bytes = bytes_of_inputs(v);
  cost.write_bytes = 4.0 * static_cast<double>(v.tokens * v.entries);
  return cost;
}

OpCost index_scores_backward_cost(const IndexScoreValues<float>& v) {
  const double products = num_products(v);
  OpCost cost;
  // Products again, gradients of queries and of keys.
  cost.add_flops(math_format(v.operands), 3 * 2 * products * static_cast<double>(v.width));
  cost.scalar_ops = 5 * products;  // cut off at zero, into the weight's gradient (2), cut off again, weighted
  cost.read_bytes = bytes_of_inputs(v) + 4.0 * static_cast<double>(v.tokens * v.entries);
  cost.write_bytes = bytes_of_inputs(v);
  return cost;
}

}  // namespace baleen
