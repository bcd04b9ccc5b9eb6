/// A compressor's pooling over one whole document, whose positions start at 0, as training computes it. The
/// Compressor of inference pools the same rows from rings and pages, and divides by the softmax's sum at the
/// end, where this divides each weight: other bits, and no entries to keep for a backward.
/// (source: forward pass 5.4)
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "ops/operation/operation.h"

namespace baleen {

template <class T>
struct PoolingValues {
  std::int64_t tokens = 0;
  std::int64_t ratio = 0;  ///< r
  std::int64_t width = 0;  ///< h
  bool overlaps = false;   ///< rows of 2h columns: [0, h) serve the next entry, [h, 2h) their own
  const T* k = nullptr;    ///< [tokens, columns]
  const T* g = nullptr;    ///< [tokens, columns], without ape
  const T* ape = nullptr;  ///< [ratio, columns]; null: gates have no biases, as those of latents

  [[nodiscard]] std::int64_t columns() const { return overlaps ? 2 * width : width; }
  [[nodiscard]] std::int64_t entries() const { return tokens / ratio; }
};

namespace pooling_detail {

/// Calls body(token, column offset) for the rows of entry j, in order.
template <class T, class Body>
void for_rows(const PoolingValues<T>& v, std::int64_t entry, Body&& body) {
  if (v.overlaps && entry > 0) {
    for (std::int64_t t = (entry - 1) * v.ratio; t < entry * v.ratio; ++t) body(t, std::int64_t{0});
  }
  for (std::int64_t t = entry * v.ratio; t < (entry + 1) * v.ratio; ++t) body(t, v.columns() - v.width);
}

/// Of token t, with its bias.
template <class T>
T gate(const PoolingValues<T>& v, std::int64_t t, std::int64_t column) {
  const T g = v.g[t * v.columns() + column];
  return v.ape == nullptr ? g : g + v.ape[t % v.ratio * v.columns() + column];
}

/// max and Σ exp of the gates of one entry, per channel.
template <class T>
void softmax_sums(const PoolingValues<T>& v, std::int64_t entry, std::vector<T>& top, std::vector<T>& sum) {
  const auto width = static_cast<std::size_t>(v.width);
  top.assign(width, -INFINITY);
  sum.assign(width, 0);
  const auto at = [&](std::int64_t t, std::int64_t offset, std::size_t a) {
    return gate(v, t, offset + static_cast<std::int64_t>(a));
  };
  for_rows(v, entry, [&](std::int64_t t, std::int64_t offset) {
    for (std::size_t a = 0; a < width; ++a) top[a] = std::max(top[a], at(t, offset, a));
  });
  for_rows(v, entry, [&](std::int64_t t, std::int64_t offset) {
    for (std::size_t a = 0; a < width; ++a) sum[a] += std::exp(at(t, offset, a) - top[a]);
  });
}

template <class T>
T weight(const PoolingValues<T>& v, std::int64_t t, std::int64_t column, T top, T sum) {
  return std::exp(gate(v, t, column) - top) / sum;
}

}  // namespace pooling_detail

/// e [entries, width]
template <class T>
void pooling_forward(const PoolingValues<T>& v, T* e) {
  std::vector<T> top;
  std::vector<T> sum;
  for (std::int64_t entry = 0; entry < v.entries(); ++entry) {
    pooling_detail::softmax_sums(v, entry, top, sum);
    T* out = e + entry * v.width;
    std::fill(out, out + v.width, T{0});
    pooling_detail::for_rows(v, entry, [&](std::int64_t t, std::int64_t offset) {
      for (std::int64_t a = 0; a < v.width; ++a) {
        const auto i = static_cast<std::size_t>(a);
        out[a] +=
            pooling_detail::weight(v, t, offset + a, top[i], sum[i]) * v.k[t * v.columns() + offset + a];
      }
    });
  }
}

/// Of the pooling alone; gates without `ape`.
[[nodiscard]] OpCost pooling_cost(const PoolingValues<float>& v);
[[nodiscard]] OpCost pooling_backward_cost(const PoolingValues<float>& v);

}  // namespace baleen
