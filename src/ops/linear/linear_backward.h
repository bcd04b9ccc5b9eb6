/// The backward of y = x Wᵀ, in float32 or float64. Gradients accumulate; roundings pass them as they are.
#pragma once

#include "ops/linear/dense_linear.h"

namespace baleen {

/// dx += dy W, dW += dyᵀ x, each skipped where its pointer is null. 2 rows in out FLOPs each.
template <class T, class... Pool>
void linear_backward(const LinearShape& s, const T* x, const T* w, const T* dy, T* dx, T* dw, Pool&... pool) {
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
