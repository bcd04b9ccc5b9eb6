#include "numeric/int8_group.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <random>

#include "numeric/e8m0.h"

namespace baleen {
namespace {

TEST(Int8Activations, LargestBecomes127AndTiesGoToEven) {
  const std::array<float, 6> values{127.0F, 0.5F, 1.5F, -2.5F, -127.0F, 0.0F};
  std::array<std::int8_t, 6> codes;
  EXPECT_EQ(quantise_int8_activations(values, codes), 1.0F);
  EXPECT_EQ(codes, (std::array<std::int8_t, 6>{127, 0, 2, -2, -127, 0}));
}

TEST(Int8Activations, AreWithinHalfAUnitOfAnyScale) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (int exponent = -95; exponent <= 120; exponent += 5) {
    std::array<float, kInt8Group> values;
    for (float& value : values) value = std::ldexp(normal(random), exponent);
    std::array<std::int8_t, kInt8Group> codes;
    const float scale = quantise_int8_activations(values, codes);
    for (std::size_t i = 0; i < values.size(); ++i) {
      EXPECT_NEAR(codes[i], values[i] / scale, 0.5001);
      EXPECT_LE(std::abs(codes[i]), kLargestInt8Activation);
    }
  }
}

TEST(Int8Activations, NothingIsZeroAndNonFiniteIsNaN) {
  std::array<float, kInt8Group> values{};
  std::array<std::int8_t, kInt8Group> codes;
  codes.fill(7);
  EXPECT_EQ(quantise_int8_activations(values, codes), 0.0F);
  EXPECT_EQ(codes, (std::array<std::int8_t, kInt8Group>{}));
  values[3] = 0x1p-101F;
  EXPECT_EQ(quantise_int8_activations(values, codes), 0.0F);
  for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
    values[5] = bad;
    EXPECT_TRUE(std::isnan(quantise_int8_activations(values, codes)));
    EXPECT_EQ(codes, (std::array<std::int8_t, kInt8Group>{}));
  }
}

TEST(Int8Weights, ScaleIsTheSmallestPowerOfTwoThatHoldsThem) {
  std::mt19937 random(2);
  std::normal_distribution<float> normal;
  for (int exponent = -115; exponent <= 115; exponent += 5) {
    std::array<float, kInt8Group> values;
    for (float& value : values) value = std::ldexp(normal(random), exponent);
    std::array<std::int8_t, kInt8Group> codes;
    const float unit = e8m0_to_float(quantise_int8_weights(values, codes));
    int largest = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      EXPECT_NEAR(codes[i], values[i] / unit, 0.5);
      largest = std::max(largest, std::abs(codes[i]));
    }
    EXPECT_LE(largest, kLargestInt8Weight);
    EXPECT_GE(largest, 31);
  }
}

TEST(Int8Weights, ZerosAndNonFinite) {
  std::array<float, kInt8Group> values{};
  std::array<std::int8_t, kInt8Group> codes;
  EXPECT_NE(quantise_int8_weights(values, codes), kE8m0NaN);
  EXPECT_EQ(codes, (std::array<std::int8_t, kInt8Group>{}));
  values[31] = -std::numeric_limits<float>::infinity();
  EXPECT_EQ(quantise_int8_weights(values, codes), kE8m0NaN);
}

}  // namespace
}  // namespace baleen
