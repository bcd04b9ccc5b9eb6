/// y = x Wᵀ as training computes it, by ops/dense_product, in float32 or float64: the variant `training` of
/// Linear, GroupedLinear and LmHead, and what runs on one thread inside the trainer's experts.
#pragma once

#include "ops/dense_product/dense_product.h"

namespace baleen {

/// x [rows, in], W [out, in], y [rows, out]. Strides: elements between rows.
struct LinearShape {
  std::int64_t rows = 0, in = 0, out = 0;
  std::int64_t x_stride = 0;  ///< 0: in
  std::int64_t y_stride = 0;  ///< 0: out
  Operands operands = Operands::kAsStored;

  [[nodiscard]] std::int64_t x_step() const { return x_stride != 0 ? x_stride : in; }
  [[nodiscard]] std::int64_t y_step() const { return y_stride != 0 ? y_stride : out; }
};

/// 2 rows in out FLOPs. Runs on the threads of a pool, or without one on the calling thread.
template <class T, class... Pool>
void dense_linear(const LinearShape& s, const T* x, const T* w, T* y, Pool&... pool) {
  dense_product<T>({.m = s.rows,
                    .n = s.out,
                    .k = s.in,
                    .a = x,
                    .a_stride = s.x_step(),
                    .b = w,
                    .b_stride = s.in,
                    .b_transposed = true,
                    .c = y,
                    .c_stride = s.y_step(),
                    .operands = s.operands},
                   pool...);
}

}  // namespace baleen
