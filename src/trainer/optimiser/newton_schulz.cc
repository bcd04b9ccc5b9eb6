#include "trainer/optimiser/newton_schulz.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "ops/dense_product/dense_product.h"

namespace baleen {
namespace {

struct Coefficients {
  float a, b, c;
};

/// Eight steps bring singular values near 1 quickly, two settle them.
Coefficients coefficients(int step) {
  return step < 8 ? Coefficients{3.4445F, -4.7750F, 2.0315F} : Coefficients{2.0F, -1.5F, 0.5F};
}

/// M <- a M + (b A + c A A) M with A = M Mᵀ; M [p, q], p <= q.
class Iteration {
 public:
  Iteration(std::int64_t p, std::int64_t q, ThreadPool& pool, Operands operands)
      : p_(p),
        q_(q),
        pool_(pool),
        operands_(operands),
        gram_(size(p, p)),
        polynomial_(size(p, p)),
        next_(size(p, q)) {}

  void step(const Coefficients& by, std::vector<float>& m) {
    multiply({.m = p_,
              .n = p_,
              .k = q_,
              .a = m.data(),
              .a_stride = q_,
              .b = m.data(),
              .b_stride = q_,
              .b_transposed = true,
              .c = gram_.data(),
              .c_stride = p_});
    for (std::size_t i = 0; i < gram_.size(); ++i) polynomial_[i] = by.b * gram_[i];
    multiply({.m = p_,
              .n = p_,
              .k = p_,
              .a = gram_.data(),
              .a_stride = p_,
              .b = gram_.data(),
              .b_stride = p_,
              .c = polynomial_.data(),
              .c_stride = p_,
              .alpha = by.c,
              .accumulate = true});
    for (std::size_t i = 0; i < m.size(); ++i) next_[i] = by.a * m[i];
    multiply({.m = p_,
              .n = q_,
              .k = p_,
              .a = polynomial_.data(),
              .a_stride = p_,
              .b = m.data(),
              .b_stride = q_,
              .c = next_.data(),
              .c_stride = q_,
              .accumulate = true});
    std::swap(m, next_);
  }

 private:
  static std::size_t size(std::int64_t rows, std::int64_t columns) {
    return static_cast<std::size_t>(rows * columns);
  }
  void multiply(DenseProduct<float> product) {
    product.operands = operands_;
    dense_product(product, pool_);
  }

  std::int64_t p_, q_;
  ThreadPool& pool_;
  Operands operands_;
  std::vector<float> gram_, polynomial_, next_;
};

}  // namespace

double newton_schulz_flops(std::int64_t rows, std::int64_t columns) {
  const auto p = static_cast<double>(std::min(rows, columns)),
             q = static_cast<double>(std::max(rows, columns));
  return kNewtonSchulzSteps * (4 * p * p * q + 2 * p * p * p);
}

void newton_schulz(std::int64_t rows, std::int64_t columns, std::span<float> matrix, ThreadPool& pool,
                   Operands operands) {
  double squares = 0;
  for (const float value : matrix) squares += static_cast<double>(value) * value;
  if (squares == 0) return;
  const double scale = 1 / std::sqrt(squares);
  const bool transposed = rows > columns;
  std::vector<float> m(matrix.size());
  const auto place = [&](std::int64_t row, std::int64_t column) {
    return static_cast<std::size_t>(transposed ? column * rows + row : row * columns + column);
  };
  for (std::int64_t row = 0, i = 0; row < rows; ++row) {
    for (std::int64_t column = 0; column < columns; ++column, ++i) {
      m[place(row, column)] = static_cast<float>(matrix[static_cast<std::size_t>(i)] * scale);
    }
  }
  Iteration iteration(transposed ? columns : rows, transposed ? rows : columns, pool, operands);
  for (int step = 0; step < kNewtonSchulzSteps; ++step) iteration.step(coefficients(step), m);
  for (std::int64_t row = 0, i = 0; row < rows; ++row) {
    for (std::int64_t column = 0; column < columns; ++column, ++i) {
      matrix[static_cast<std::size_t>(i)] = m[place(row, column)];
    }
  }
}

}  // namespace baleen
