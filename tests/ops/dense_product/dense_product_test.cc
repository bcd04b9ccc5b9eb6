// Products of BF16 operands against sums in double of the rounded values, by every kernel of this machine.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "numeric/bf16.h"
#include "ops/dense_product/bf16_product.h"

namespace baleen {
namespace {

std::vector<Bf16Kernel> kernels_of_this_machine() {
  switch (bf16_kernel()) {
    case Bf16Kernel::kTiles:
      return {Bf16Kernel::kTiles, Bf16Kernel::kVectors, Bf16Kernel::kRoundedCopies};
    case Bf16Kernel::kVectors:
      return {Bf16Kernel::kVectors, Bf16Kernel::kRoundedCopies};
    case Bf16Kernel::kRoundedCopies:
      break;
  }
  return {Bf16Kernel::kRoundedCopies};
}

struct Shape {
  std::int64_t m, n, k;
  bool a_transposed, b_transposed, accumulate;
};

/// A product of random values within larger matrices, whose other elements no product may read or change.
class RandomProduct {
 public:
  RandomProduct(const Shape& s, std::mt19937& random)
      : a_(matrix(s.a_transposed ? s.k : s.m, (s.a_transposed ? s.m : s.k) + 3, random)),
        b_(matrix(s.b_transposed ? s.n : s.k, (s.b_transposed ? s.k : s.n) + 5, random)),
        before_(matrix(s.m, s.n + 2, random)),
        c_(before_),
        product_{.m = s.m,
                 .n = s.n,
                 .k = s.k,
                 .a = a_.data(),
                 .a_stride = (s.a_transposed ? s.m : s.k) + 3,
                 .a_transposed = s.a_transposed,
                 .b = b_.data(),
                 .b_stride = (s.b_transposed ? s.k : s.n) + 5,
                 .b_transposed = s.b_transposed,
                 .c = c_.data(),
                 .c_stride = s.n + 2,
                 .alpha = 0.75F,
                 .accumulate = s.accumulate} {}

  void run(Bf16Kernel kernel) {
    c_ = before_;
    bf16_product(product_, kernel);
  }

  void check() const {
    for (std::int64_t row = 0; row < product_.m; ++row) {
      for (std::int64_t column = 0; column < product_.c_stride; ++column) {
        const auto at = static_cast<std::size_t>(row * product_.c_stride + column);
        if (column >= product_.n) {
          ASSERT_EQ(c_[at], before_[at]) << "beyond row " << row;
          continue;
        }
        double sum = 0;
        double size = 0;
        for (std::int64_t i = 0; i < product_.k; ++i) {
          const double term = rounded(a_, row, i, product_.a_stride, product_.a_transposed) *
                              rounded(b_, i, column, product_.b_stride, product_.b_transposed);
          sum += term;
          size += std::abs(term);
        }
        const double expected = 0.75 * sum + (product_.accumulate ? static_cast<double>(before_[at]) : 0.0);
        ASSERT_NEAR(static_cast<double>(c_[at]), expected, 1e-6 * (size + std::abs(expected)) + 1e-30)
            << "row " << row << ", column " << column;
      }
    }
  }
  [[nodiscard]] const std::vector<float>& result() const { return c_; }

 private:
  static std::vector<float> matrix(std::int64_t rows, std::int64_t stride, std::mt19937& random) {
    std::normal_distribution<float> normal(0, 1);
    std::vector<float> values(static_cast<std::size_t>(rows * stride));
    for (float& value : values) value = normal(random);
    return values;
  }
  static double rounded(const std::vector<float>& x, std::int64_t row, std::int64_t column,
                        std::int64_t stride, bool transposed) {
    const std::int64_t at = transposed ? column * stride + row : row * stride + column;
    return static_cast<double>(round_bf16(x[static_cast<std::size_t>(at)]));
  }

  std::vector<float> a_, b_, before_, c_;
  DenseProduct<float> product_;
};

TEST(Bf16Product, IsTheSumOfRoundedProducts) {
  std::mt19937 random(std::random_device{}());
  const auto between = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  std::vector<Shape> shapes = {
      {1, 1, 1, false, false, false}, {16, 16, 32, true, true, true}, {33, 47, 65, false, true, false}};
  for (int i = 0; i < 60; ++i) {
    shapes.push_back({between(1, 70), between(1, 70), between(1, 130), between(0, 1) == 1, between(0, 1) == 1,
                      between(0, 1) == 1});
  }
  for (const Shape& s : shapes) {
    RandomProduct product(s, random);
    for (const Bf16Kernel kernel : kernels_of_this_machine()) {
      SCOPED_TRACE(testing::Message()
                   << bf16_kernel_name(kernel) << ": m " << s.m << ", n " << s.n << ", k " << s.k
                   << (s.a_transposed ? ", a transposed" : "") << (s.b_transposed ? ", b transposed" : ""));
      product.run(kernel);
      product.check();
      if (HasFatalFailure()) return;
    }
  }
}

TEST(Bf16Product, AnEmptyInnerDimensionGivesZeros) {
  for (const Bf16Kernel kernel : kernels_of_this_machine()) {
    std::mt19937 random(1);
    RandomProduct product({5, 7, 0, false, false, false}, random);
    product.run(kernel);
    product.check();
  }
}

TEST(Bf16Product, TheThreadsOfAPoolChangeNoBit) {
  constexpr std::int64_t kRows = 300, kColumns = 700, kInner = 90;
  std::mt19937 random(3);
  std::normal_distribution<float> normal(0, 1);
  std::vector<float> a(kRows * kInner), b(kInner * kColumns);
  for (float& value : a) value = normal(random);
  for (float& value : b) value = normal(random);
  std::vector<float> first;
  for (const int threads : {1, 2, 3}) {
    std::vector<float> c(kRows * kColumns);
    ThreadPool pool(threads);
    dense_product<float>({.m = kRows,
                          .n = kColumns,
                          .k = kInner,
                          .a = a.data(),
                          .a_stride = kInner,
                          .b = b.data(),
                          .b_stride = kColumns,
                          .c = c.data(),
                          .c_stride = kColumns,
                          .operands = Operands::kBf16},
                         pool);
    if (first.empty()) first = c;
    EXPECT_EQ(c, first) << threads;
  }
}

}  // namespace
}  // namespace baleen
