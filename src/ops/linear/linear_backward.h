/// Training of y = x Wᵀ: forward in the trainer's arithmetic and its backward, in float32 or float64.
/// Gradients accumulate.
#pragma once

#include "ops/dense_product/dense_product.h"

namespace baleen {

/// y [rows, out] = x [rows, in] Wᵀ, W [out, in]. 2 rows in out FLOPs. Strides: elements between rows. Runs
/// on the threads of a pool, or without one on the calling thread.
template <class T>
struct LinearShape {
  std::int64_t rows = 0, in = 0, out = 0;
  std::int64_t x_stride = 0;  ///< 0: in
  std::int64_t y_stride = 0;  ///< 0: out
  Operands operands = Operands::kAsStored;

  [[nodiscard]] std::int64_t x_step() const { return x_stride != 0 ? x_stride : in; }
  [[nodiscard]] std::int64_t y_step() const { return y_stride != 0 ? y_stride : out; }
};

template <class T, class... Pool>
void linear_forward(const LinearShape<T>& s, const T* x, const T* w, T* y, Pool&... pool) {
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

/// dx += dy W, dW += dyᵀ x, each skipped where its pointer is null. 2 rows in out FLOPs each.
template <class T, class... Pool>
void linear_backward(const LinearShape<T>& s, const T* x, const T* w, const T* dy, T* dx, T* dw,
                     Pool&... pool) {
  if (dx != nullptr) {
    dense_product<T>({.m = s.rows,
                      .n = s.in,
                      .k = s.out,
                      .a = dy,
                      .a_stride = s.y_step(),
                      .b = w,
                      .b_stride = s.in,
                      .c = dx,
                      .c_stride = s.x_step(),
                      .accumulate = true,
                      .operands = s.operands},
                     pool...);
  }
  if (dw != nullptr) {
    dense_product<T>({.m = s.out,
                      .n = s.in,
                      .k = s.rows,
                      .a = dy,
                      .a_stride = s.y_step(),
                      .a_transposed = true,
                      .b = x,
                      .b_stride = s.x_step(),
                      .c = dw,
                      .c_stride = s.in,
                      .accumulate = true,
                      .operands = s.operands},
                     pool...);
  }
}

}  // namespace baleen
