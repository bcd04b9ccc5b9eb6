// Number formats against their definitions: every code, every midpoint, and random values.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "numeric/bf16.h"
#include "numeric/block_scale.h"
#include "numeric/e2m1.h"
#include "numeric/e4m3.h"
#include "numeric/e8m0.h"

namespace baleen {
namespace {

/// Nearest of the finite codes 0..last by exhaustive search; of two equally near the even one.
template <class ToFloat>
int nearest_code(float magnitude, int last, ToFloat to_float) {
  int best = 0;
  for (int code = 1; code <= last; ++code) {
    const double here = std::fabs(static_cast<double>(to_float(code)) - magnitude);
    const double there = std::fabs(static_cast<double>(to_float(best)) - magnitude);
    if (here < there || (here == there && code % 2 == 0)) best = code;
  }
  return best;
}

float e4m3_value(int code) { return e4m3_to_float(static_cast<std::uint8_t>(code)); }
float e2m1_value(int code) { return e2m1_to_float(static_cast<std::uint8_t>(code)); }

TEST(E4m3, EveryFiniteCodeRoundTrips) {
  for (int code = 0; code < 256; ++code) {
    const float value = e4m3_value(code);
    if ((code & 0x7F) == 0x7F) {
      EXPECT_TRUE(std::isnan(value));
    } else {
      EXPECT_EQ(float_to_e4m3(value), code) << value;
    }
  }
}

TEST(E4m3, MidpointsGoToTheEvenCode) {
  for (int code = 0; code < 126; ++code) {
    const float middle = (e4m3_value(code) + e4m3_value(code + 1)) / 2;  // exact: one bit more than e4m3 has
    EXPECT_EQ(float_to_e4m3(middle), code % 2 == 0 ? code : code + 1) << middle;
    EXPECT_EQ(float_to_e4m3(-middle), 128 + (code % 2 == 0 ? code : code + 1)) << middle;
  }
}

TEST(E4m3, SaturatesAndKeepsNaN) {
  EXPECT_EQ(float_to_e4m3(1e30F), 126);
  EXPECT_EQ(float_to_e4m3(-std::numeric_limits<float>::infinity()), 128 + 126);
  EXPECT_TRUE(std::isnan(e4m3_to_float(float_to_e4m3(std::nanf("")))));
}

TEST(E4m3, RandomValuesRoundToNearest) {
  EXPECT_TRUE(rc::check([] {
    const float value = static_cast<float>(*rc::gen::inRange(-460'000'000, 460'000'000)) *
                        std::ldexp(1.0F, -20 - *rc::gen::inRange(0, 20));
    const int code = nearest_code(std::fabs(value), 126, e4m3_value) | (std::signbit(value) ? 128 : 0);
    RC_ASSERT(static_cast<int>(float_to_e4m3(value)) == code);
  }));
}

TEST(E2m1, EveryCodeMidpointAndSaturation) {
  for (int code = 0; code < 16; ++code) EXPECT_EQ(float_to_e2m1(e2m1_value(code)), code);
  for (int code = 0; code < 7; ++code) {
    const float middle = (e2m1_value(code) + e2m1_value(code + 1)) / 2;
    EXPECT_EQ(float_to_e2m1(middle), code % 2 == 0 ? code : code + 1) << middle;
  }
  EXPECT_EQ(float_to_e2m1(100.0F), 7);
  EXPECT_EQ(float_to_e2m1(-100.0F), 15);
}

TEST(Bf16, TiesToEvenAndNaN) {
  EXPECT_EQ(round_bf16(1.0F + 0x1p-8F), 1.0F);
  EXPECT_EQ(round_bf16(1.0F + 3 * 0x1p-8F), 1.0F + 0x1p-6F);
  EXPECT_EQ(round_bf16(1.0F + 0x1.02p-8F), 1.0F + 0x1p-7F);
  EXPECT_TRUE(std::isnan(round_bf16(std::nanf(""))));
  EXPECT_TRUE(std::isinf(round_bf16(std::numeric_limits<float>::max())));
}

TEST(Bf16, RoundTripsAndIsMonotone) {
  EXPECT_TRUE(rc::check([](std::uint16_t bits) {
    const float value = bf16_to_float(bits);
    if (!std::isnan(value)) RC_ASSERT(float_to_bf16(value) == bits);
  }));
}

TEST(Scale, WorkedExamplesOfTheSpecification) {
  EXPECT_EQ(e8m0_to_float(fp8_scale_code(448.0F)), 1.0F);
  EXPECT_EQ(e8m0_to_float(fp8_scale_code(450.0F)), 2.0F);
  EXPECT_EQ(e8m0_to_float(fp8_scale_code(0.0F)), 0x1p-22F);
  EXPECT_EQ(e8m0_to_float(fp4_scale_code(6.0F)), 1.0F);
  EXPECT_EQ(e8m0_to_float(fp4_scale_code(6.03125F)), 2.0F);
  EXPECT_EQ(e8m0_to_float(fp4_scale_code(0.0F)), 0x1p-126F);
}

TEST(Scale, SimulationEqualsCodesTimesScale) {
  EXPECT_TRUE(rc::check([](std::uint32_t seed) {
    std::vector<float> values(96);
    for (std::size_t i = 0; i < values.size(); ++i) {
      seed = seed * 1664525u + 1013904223u;
      values[i] = round_bf16(std::ldexp(static_cast<float>(static_cast<int>(seed >> 16) - 32768), -12));
    }
    std::vector<float> fp8 = values, fp4 = values;
    simulate_fp8(fp8, 64);
    simulate_fp4(fp4, 32);
    std::vector<std::uint8_t> codes(64);
    for (std::size_t begin = 0; begin < values.size(); begin += 64) {
      const std::size_t length = std::min<std::size_t>(64, values.size() - begin);
      const auto scale = quantise_fp8_block(std::span(values).subspan(begin, length), codes);
      for (std::size_t i = 0; i < length; ++i) {
        RC_ASSERT(e4m3_to_float(codes[i]) * e8m0_to_float(scale) == fp8[begin + i]);
        RC_ASSERT(round_bf16(fp8[begin + i]) == fp8[begin + i]);  // lossless in BF16
      }
    }
    for (std::size_t begin = 0; begin < values.size(); begin += 32) {
      const auto scale = quantise_fp4_block(std::span(values).subspan(begin, 32), codes);
      for (std::size_t i = 0; i < 32; ++i)
        RC_ASSERT(e2m1_to_float(codes[i]) * e8m0_to_float(scale) == fp4[begin + i]);
    }
  }));
}

}  // namespace
}  // namespace baleen
