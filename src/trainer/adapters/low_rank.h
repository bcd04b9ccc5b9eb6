/// A matrix with a low-rank addition, and its backward. W, W0 [out, in]; A [rank, in]; B [out, rank].
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "ops/dense_product/dense_product.h"

namespace baleen {

struct LowRankShape {
  std::int64_t out = 0, in = 0, rank = 0;
  double scale = 1;
};

template <class T>
[[nodiscard]] std::vector<T> scaled(const T* values, std::int64_t size, double scale) {
  std::vector<T> result(values, values + size);
  for (T& value : result) value *= static_cast<T>(scale);
  return result;
}

/// W = W0 + scale B A. `w` and `w0` do not overlap. 2 out in rank FLOPs.
template <class T>
void low_rank_forward(const LowRankShape& s, const T* w0, const T* a, const T* b, T* w) {
  std::copy_n(w0, s.out * s.in, w);
  const std::vector<T> scaled_b = scaled(b, s.out * s.rank, s.scale);
  dense_product<T>({.m = s.out,
                    .n = s.in,
                    .k = s.rank,
                    .a = scaled_b.data(),
                    .a_stride = s.rank,
                    .b = a,
                    .b_stride = s.in,
                    .c = w,
                    .c_stride = s.in,
                    .accumulate = true});
}

/// da += scale Bᵀ dW, db += scale dW Aᵀ. 4 out in rank FLOPs.
template <class T>
void low_rank_backward(const LowRankShape& s, const T* a, const T* b, const T* dw, T* da, T* db) {
  const std::vector<T> scaled_a = scaled(a, s.rank * s.in, s.scale);
  const std::vector<T> scaled_b = scaled(b, s.out * s.rank, s.scale);
  dense_product<T>({.m = s.rank,
                    .n = s.in,
                    .k = s.out,
                    .a = scaled_b.data(),
                    .a_stride = s.rank,
                    .a_transposed = true,
                    .b = dw,
                    .b_stride = s.in,
                    .c = da,
                    .c_stride = s.in,
                    .accumulate = true});
  dense_product<T>({.m = s.out,
                    .n = s.rank,
                    .k = s.in,
                    .a = dw,
                    .a_stride = s.in,
                    .b = scaled_a.data(),
                    .b_stride = s.in,
                    .b_transposed = true,
                    .c = db,
                    .c_stride = s.rank,
                    .accumulate = true});
}

}  // namespace baleen
