#include "trainer/optimiser/newton_schulz.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace baleen {
namespace {

using Matrix = std::vector<double>;

/// `count` orthonormal rows of `width`, by Gram-Schmidt done twice.
Matrix orthonormal_rows(int count, int width, std::mt19937& random) {
  std::normal_distribution<double> normal;
  Matrix rows(static_cast<std::size_t>(count * width));
  for (double& value : rows) value = normal(random);
  for (int row = 0; row < count; ++row) {
    double* x = rows.data() + row * width;
    for (int before = 0; before < 2 * row; ++before) {
      const double* y = rows.data() + before % row * width;
      double dot = 0;
      for (int i = 0; i < width; ++i) dot += x[i] * y[i];
      for (int i = 0; i < width; ++i) x[i] -= dot * y[i];
    }
    double norm = 0;
    for (int i = 0; i < width; ++i) norm += x[i] * x[i];
    for (int i = 0; i < width; ++i) x[i] /= std::sqrt(norm);
  }
  return rows;
}

/// Σ_r s_r u_r v_rᵀ with singular values from 1 to 1 / condition: since the iteration keeps u and v, the
/// value of r afterwards is u_rᵀ M v_r.
void expect_singular_values_near_one(int rows, int columns, double condition,
                                     Operands operands = Operands::kAsStored) {
  std::mt19937 random(static_cast<unsigned>(rows * 1000 + columns));
  const int rank = std::min(rows, columns);
  const Matrix u = orthonormal_rows(rank, rows, random);
  const Matrix v = orthonormal_rows(rank, columns, random);
  std::vector<float> m(static_cast<std::size_t>(rows * columns));
  for (int i = 0; i < rows; ++i) {
    for (int j = 0; j < columns; ++j) {
      double sum = 0;
      for (int r = 0; r < rank; ++r) {
        const double s = std::pow(condition, -static_cast<double>(r) / std::max(1, rank - 1));
        sum += s * u[static_cast<std::size_t>(r * rows + i)] * v[static_cast<std::size_t>(r * columns + j)];
      }
      m[static_cast<std::size_t>(i * columns + j)] = static_cast<float>(sum);
    }
  }
  ThreadPool pool(2);
  newton_schulz(rows, columns, m, pool, operands);
  for (int r = 0; r < rank; ++r) {
    double value = 0;
    for (int i = 0; i < rows; ++i) {
      for (int j = 0; j < columns; ++j) {
        value += u[static_cast<std::size_t>(r * rows + i)] * m[static_cast<std::size_t>(i * columns + j)] *
                 v[static_cast<std::size_t>(r * columns + j)];
      }
    }
    EXPECT_GE(value, 0.9) << rows << " x " << columns << ", value " << r;
    EXPECT_LE(value, 1.1) << rows << " x " << columns << ", value " << r;
  }
}

TEST(NewtonSchulz, SingularValuesAreNearOneUpToCondition1000) {
  expect_singular_values_near_one(24, 96, 1e3);
  expect_singular_values_near_one(96, 24, 1e3);
  expect_singular_values_near_one(64, 64, 1e3);
  expect_singular_values_near_one(1, 7, 1);
}

TEST(NewtonSchulz, WithBf16ProductsToo) {
  expect_singular_values_near_one(24, 96, 1e3, Operands::kBf16);
  expect_singular_values_near_one(96, 24, 1e3, Operands::kBf16);
  expect_singular_values_near_one(64, 256, 1e3, Operands::kBf16);
}

TEST(NewtonSchulz, ZerosStayZeros) {
  ThreadPool pool(1);
  std::vector<float> m(12);
  newton_schulz(3, 4, m, pool);
  EXPECT_EQ(m, std::vector<float>(12));
}

TEST(NewtonSchulz, FlopsOfOneMatrix) {
  EXPECT_DOUBLE_EQ(newton_schulz_flops(2, 3), 10.0 * (4 * 4 * 3 + 2 * 8));
  EXPECT_DOUBLE_EQ(newton_schulz_flops(3, 2), newton_schulz_flops(2, 3));
}

}  // namespace
}  // namespace baleen
