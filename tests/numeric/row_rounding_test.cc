// Roundings of whole rows against the scalar ones, on lengths with and without a remainder.
#include "numeric/row_rounding.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

#include "numeric/bf16.h"
#include "numeric/block_scale.h"
#include "numeric/hadamard.h"

namespace baleen {
namespace {

std::vector<float> values(std::size_t count) {
  std::mt19937 random(static_cast<unsigned>(count));
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = std::exp(3 * normal(random)) * normal(random);
  return values;
}

TEST(RowRounding, IsTheRoundingOfEachValueOrBlock) {
  for (const std::size_t count : {1U, 7U, 32U, 100U, 128U, 448U, 300U}) {
    std::vector<float> bf16 = values(count), fp8 = values(count), fp4 = values(count);
    row_rounding::to_bf16(bf16);
    row_rounding::to_fp8(fp8, kActivationGroup);
    row_rounding::to_fp4(fp4, kIndexerGroup);
    std::vector<float> expected = values(count);
    for (float& value : expected) value = round_bf16(value);
    EXPECT_EQ(bf16, expected) << count;
    expected = values(count);
    simulate_fp8(expected, kActivationGroup);
    EXPECT_EQ(fp8, expected) << count;
    expected = values(count);
    simulate_fp4(expected, kIndexerGroup);
    EXPECT_EQ(fp4, expected) << count;
  }
}

TEST(RowRounding, TheTransformIsTheReferences) {
  for (const std::size_t count : {4U, 16U, 128U}) {
    std::vector<float> got = values(count), expected = values(count);
    row_rounding::hadamard(got);
    hadamard_transform(expected);
    double norm = 0, error = 0;
    for (std::size_t i = 0; i < count; ++i) {
      norm += std::pow(expected[i], 2);
      error += std::pow(got[i] - expected[i], 2);
    }
    EXPECT_LE(std::sqrt(error / norm), 1e-6) << count;
  }
}

}  // namespace
}  // namespace baleen
