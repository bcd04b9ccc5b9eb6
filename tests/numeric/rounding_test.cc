// The SIMD roundings against the scalar number formats, to the bit, on every instruction set of this machine.
#include "tests/support/every_target.h"

#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <span>
#include <vector>

#include "numeric/bf16.h"
#include "numeric/e2m1.h"
#include "numeric/e4m3.h"
#include "tests/support/compare.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "rounding_test.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "numeric/rounding-inl.h"

HWY_BEFORE_NAMESPACE();
namespace baleen::HWY_NAMESPACE {

// Counts are multiples of 16, the longest vector of any target here.
void round_all_bf16(const float* from, std::size_t count, float* to) {
  const hn::CappedTag<float, 16> d;
  for (std::size_t i = 0; i < count; i += hn::Lanes(d))
    hn::StoreU(round_bf16_simd(d, hn::LoadU(d, from + i)), d, to + i);
}
void round_all_e4m3(const float* from, std::size_t count, float* to) {
  const hn::CappedTag<float, 16> d;
  for (std::size_t i = 0; i < count; i += hn::Lanes(d))
    hn::StoreU(round_e4m3(d, hn::LoadU(d, from + i)), d, to + i);
}
void round_all_e2m1(const float* from, std::size_t count, float* to) {
  const hn::CappedTag<float, 16> d;
  for (std::size_t i = 0; i < count; i += hn::Lanes(d))
    hn::StoreU(round_e2m1(d, hn::LoadU(d, from + i)), d, to + i);
}
void simulate_fp8_simd(const float* from, std::size_t count, float* to) {
  simulate_fp8_block(hn::CappedTag<float, 16>(), from, to, count);
}
void simulate_fp4_simd(const float* from, std::size_t count, float* to) {
  simulate_fp4_block(hn::CappedTag<float, 16>(), from, to, count);
}
std::int64_t compiled_for() { return HWY_TARGET; }

}  // namespace baleen::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace baleen {

HWY_EXPORT(round_all_bf16);
HWY_EXPORT(round_all_e4m3);
HWY_EXPORT(round_all_e2m1);
HWY_EXPORT(simulate_fp8_simd);
HWY_EXPORT(simulate_fp4_simd);
HWY_EXPORT(compiled_for);

namespace {

class Rounding : public test::EveryTarget {};

float scalar_e4m3(float value) { return e4m3_to_float(float_to_e4m3(value)); }
float scalar_e2m1(float value) { return e2m1_to_float(float_to_e2m1(value)); }

/// The value, its neighbours on both sides, and all of them negated.
void add_around(float value, std::vector<float>& values) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float v : {value, std::nextafter(value, infinity), std::nextafter(value, -infinity)}) {
    values.push_back(v);
    values.push_back(-v);
  }
}

std::vector<float> hard_values() {
  std::vector<float> values;
  for (int code = 0; code < 126; ++code) {
    const float low = e4m3_to_float(static_cast<std::uint8_t>(code));
    const float high = e4m3_to_float(static_cast<std::uint8_t>(code + 1));
    add_around(low, values);
    add_around((low + high) / 2, values);
  }
  for (int code = 0; code < 7; ++code) {
    const float low = e2m1_to_float(static_cast<std::uint8_t>(code));
    const float high = e2m1_to_float(static_cast<std::uint8_t>(code + 1));
    add_around(low, values);
    add_around((low + high) / 2, values);
  }
  using Limits = std::numeric_limits<float>;
  for (const float v : {448.0F, 464.0F, 480.0F, 6.0F, 7.0F, Limits::infinity(), Limits::max(), Limits::min(),
                        Limits::denorm_min(), 0x1.FFp-127F, 0x1.FFFFFEp127F, 0x1.FEp127F, 1.0F + 0x1p-8F}) {
    add_around(v, values);
  }
  std::mt19937 random(20240611);
  for (int i = 0; i < 200'000; ++i) {
    const float any = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    if (!std::isnan(any)) values.push_back(any);
    values.push_back(
        std::ldexp(static_cast<float>(static_cast<std::int32_t>(random())), -22));  // within +-512
  }
  values.resize((values.size() + 15) / 16 * 16, 0.0F);
  return values;
}

template <class Scalar>
std::vector<float> each(const std::vector<float>& values, Scalar scalar) {
  std::vector<float> rounded;
  for (const float value : values) rounded.push_back(scalar(value));
  return rounded;
}

TEST_P(Rounding, RunsTheInstructionSetItSays) { EXPECT_EQ(HWY_DYNAMIC_DISPATCH(compiled_for)(), GetParam()); }

TEST_P(Rounding, EqualsTheScalarFormats) {
  const std::vector<float> values = hard_values();
  std::vector<float> got(values.size());
  HWY_DYNAMIC_DISPATCH(round_all_bf16)(values.data(), values.size(), got.data());
  EXPECT_SAME_BITS(got, each(values, round_bf16));
  HWY_DYNAMIC_DISPATCH(round_all_e4m3)(values.data(), values.size(), got.data());
  EXPECT_SAME_BITS(got, each(values, scalar_e4m3));
  HWY_DYNAMIC_DISPATCH(round_all_e2m1)(values.data(), values.size(), got.data());
  EXPECT_SAME_BITS(got, each(values, scalar_e2m1));
}

TEST_P(Rounding, Bf16KeepsNaNAndItsPayload) {
  std::vector<float> values;
  for (const std::uint32_t bits : {0x7FC00000u, 0xFFC00000u, 0x7F800001u, 0xFF80FFFFu, 0x7FFFFFFFu,
                                   0xFFFFFFFFu, 0x7FA12345u, 0x7F810000u}) {
    values.push_back(std::bit_cast<float>(bits));
  }
  values.resize(16, 1.0F);
  std::vector<float> got(values.size());
  HWY_DYNAMIC_DISPATCH(round_all_bf16)(values.data(), values.size(), got.data());
  EXPECT_SAME_BITS(got, each(values, round_bf16));
}

TEST_P(Rounding, E4m3KeepsNaN) {
  std::vector<float> values(16, std::nanf(""));
  values[3] = -values[3];
  std::vector<float> got(values.size());
  HWY_DYNAMIC_DISPATCH(round_all_e4m3)(values.data(), values.size(), got.data());
  for (const float value : got) EXPECT_TRUE(std::isnan(value));
}

TEST_P(Rounding, SimulatedBlocksEqualTheScalarOnes) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  for (int round = 0; round < 400; ++round) {
    // From far below the smallest scale of either format to near the end of float32.
    const float size = std::ldexp(1.0F, static_cast<int>(random() % 256) - 130);
    std::vector<float> values(128);
    for (float& value : values) value = size * normal(random);
    if (round % 7 == 0) values[random() % 128] = std::numeric_limits<float>::infinity();
    if (round % 5 == 0) std::fill(values.begin(), values.begin() + 64, 0.0F);
    std::vector<float> want = values;
    std::vector<float> got(values.size());
    simulate_fp8(want, 128);
    HWY_DYNAMIC_DISPATCH(simulate_fp8_simd)(values.data(), values.size(), got.data());
    ASSERT_SAME_BITS(got, want);
    want = values;
    simulate_fp4(want, 32);
    for (std::size_t i = 0; i < values.size(); i += 32) {
      HWY_DYNAMIC_DISPATCH(simulate_fp4_simd)(values.data() + i, 32, got.data() + i);
    }
    ASSERT_SAME_BITS(got, want);
  }
}

TEST_P(Rounding, NaNInAnFp8BlockStaysWhereItIs) {
  std::vector<float> values(128);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) - 50.3F;
  values[77] = std::nanf("");
  std::vector<float> want = values;
  std::vector<float> got(values.size());
  simulate_fp8(want, 128);
  HWY_DYNAMIC_DISPATCH(simulate_fp8_simd)(values.data(), values.size(), got.data());
  EXPECT_CLOSE(got, want, {});
}

INSTANTIATE_TEST_SUITE_P(EveryTarget, Rounding, testing::ValuesIn(test::compiled_targets()),
                         test::target_name);

}  // namespace
}  // namespace baleen
#endif  // HWY_ONCE
