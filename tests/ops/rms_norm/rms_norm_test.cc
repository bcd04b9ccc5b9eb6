#include "ops/rms_norm/rms_norm.h"

#include <cmath>

#include "numeric/bf16.h"
#include "tests/support/compare.h"
#include "tests/support/every_target.h"
#include "tests/support/random_weights.h"
#include "tests/support/test_cpu.h"

namespace baleen {
namespace {

using test::random_values;
using test::TestCpu;

constexpr Precision kPrecisions[] = {Precision::kExact, Precision::kBf16, Precision::kReleased};

class RmsNorm : public test::EveryTarget {};

std::vector<float> bf16_values(std::size_t count, std::uint32_t seed) {
  std::vector<float> values = random_values(count, seed);
  for (float& value : values) value = round_bf16(value);
  return values;
}

RmsNormArgs args_of(const std::vector<float>& x, std::int64_t width, const std::vector<float>& weight,
                    Precision precision, std::vector<float>& y) {
  const std::int64_t rows = static_cast<std::int64_t>(x.size()) / width;
  y.resize(x.size());
  return {.x = {x.data(), {rows, width}},
          .weight = weight,
          .precision = precision,
          .y = {y.data(), {rows, width}}};
}

TEST(RmsNormReference, HandMade) {
  const std::vector<float> x = {3, -4, 0, 0, 1, 1, 1, 1};  // root mean squares 2.5 and 1
  const std::vector<float> weight = {1, 2, 3, 4};
  std::vector<float> y;
  RmsNormArgs args = args_of(x, 4, weight, Precision::kExact, y);
  args.eps = 0.0F;
  rms_norm_ref(args);
  EXPECT_CLOSE(y, (std::vector<float>{1.2F, -3.2F, 0, 0, 1, 2, 3, 4}), {.relative = 1e-7});
  args.precision = Precision::kBf16;
  rms_norm_ref(args);
  EXPECT_SAME_BITS(y, (std::vector<float>{1.203125F, -3.203125F, 0, 0, 1, 2, 3, 4}));
}

TEST(RmsNormReference, ConstantRowsBecomeOne) {
  const std::vector<float> x(96, 5.0F);
  std::vector<float> y;
  rms_norm_ref(args_of(x, 96, {}, Precision::kExact, y));
  EXPECT_CLOSE(y, std::vector<float>(96, 1.0F), {.absolute = 1e-7});
}

TEST(RmsNormReference, ZeroRowsStayZero) {
  for (const Precision precision : kPrecisions) {
    const std::vector<float> x(64);
    std::vector<float> y;
    rms_norm_ref(args_of(x, 64, {}, precision, y));
    EXPECT_SAME_BITS(y, x);
  }
}

TEST(RmsNormReference, WithoutWeightEveryStepIsRounded) {
  // 1.0078125^2 = 1.01568..., in BF16 1.015625; its inverse root 0.99227..., in BF16 0.9921875; and
  // 1.0078125 * 0.9921875 = 0.99993896 rounds to 1. A second value shows the factor itself.
  std::vector<float> x(64, 1.0078125F);
  std::vector<float> y;
  rms_norm_ref(args_of(x, 64, {}, Precision::kReleased, y));
  EXPECT_SAME_BITS(y, std::vector<float>(64, 1.0F));
  x.assign(64, 1.0F);
  x[0] = 2.0F;  // mean 67 / 64 = 1.046875, rounded square root and inverse: 0.9765625
  rms_norm_ref(args_of(x, 64, {}, Precision::kReleased, y));
  EXPECT_EQ(y[1], 0.9765625F);
  EXPECT_EQ(y[0], 1.953125F);
}

TEST_P(RmsNorm, AgreesWithTheReferenceAtAnyWidth) {
  for (const std::int64_t width : {1, 2, 15, 16, 17, 63, 129, 512, 1000, 1536, 4096, 7168}) {
    const auto size = static_cast<std::size_t>(3 * width);
    const std::vector<float> x = bf16_values(size, 1);
    for (const std::vector<float>& weight :
         {std::vector<float>(), bf16_values(static_cast<std::size_t>(width), 2)}) {
      for (const Precision precision : kPrecisions) {
        TestCpu cpu;
        std::vector<float> got, want;
        cpu.run<ops::RmsNorm>(args_of(x, width, weight, precision, got));
        rms_norm_ref(args_of(x, width, weight, precision, want));
        // Rounded results may fall on the neighbouring BF16 value; without weight the factor may too.
        const double relative = precision == Precision::kExact ? 3e-7 : 0x1p-6;
        EXPECT_CLOSE(got, want, {.relative = relative}) << width;
      }
    }
  }
}

TEST_P(RmsNorm, RoundedResultsAreNearlyAlwaysTheReferences) {
  const std::vector<float> x = bf16_values(64 * 512, 3);
  for (const std::vector<float>& weight : {std::vector<float>(), bf16_values(512, 4)}) {
    TestCpu cpu;
    std::vector<float> got, want;
    cpu.run<ops::RmsNorm>(args_of(x, 512, weight, Precision::kReleased, got));
    rms_norm_ref(args_of(x, 512, weight, Precision::kReleased, want));
    int num_different = 0;
    for (std::size_t i = 0; i < got.size(); ++i) num_different += got[i] != want[i] ? 1 : 0;
    EXPECT_LE(num_different, 10);
  }
}

TEST_P(RmsNorm, InPlaceOnMisalignedStridedRows) {
  TestCpu cpu;
  std::vector<float> buffer = bf16_values(1 + 3 * 50, 6);
  const std::vector<float> before = buffer;
  const Activations<2> x(buffer.data() + 1, {3, 37}, {50, 1});
  rms_norm_cpu({.x = x, .weight = {}, .precision = Precision::kExact, .y = x}, cpu.context);
  for (std::int64_t row = 0; row < 3; ++row) {
    const std::vector<float> values(before.begin() + 1 + row * 50, before.begin() + 1 + row * 50 + 37);
    std::vector<float> want;
    rms_norm_ref(args_of(values, 37, {}, Precision::kExact, want));
    EXPECT_CLOSE(x.row(row), want, {.relative = 5e-7});
    for (std::int64_t i = 37; i < 50; ++i) EXPECT_EQ(buffer[1 + row * 50 + i], before[1 + row * 50 + i]);
  }
}

TEST_P(RmsNorm, RowsDoNotDependOnCompanyOrThreads) {
  const std::int64_t rows = 61, width = 1000;
  const std::vector<float> x = bf16_values(static_cast<std::size_t>(rows * width), 8);
  for (const std::vector<float>& weight :
       {std::vector<float>(), bf16_values(static_cast<std::size_t>(width), 9)}) {
    for (const int num_threads : {1, 2}) {
      TestCpu cpu(num_threads);
      std::vector<float> together, alone;
      cpu.run<ops::RmsNorm>(args_of(x, width, weight, Precision::kReleased, together));
      const RmsNormArgs args = args_of(x, width, weight, Precision::kReleased, alone);
      for (std::int64_t row = 0; row < rows; ++row) {
        RmsNormArgs one = args;
        one.x = args.x.slice(row, row + 1);
        one.y = args.y.slice(row, row + 1);
        cpu.run<ops::RmsNorm>(one);
      }
      EXPECT_SAME_BITS(together, alone);
    }
  }
}

TEST_P(RmsNorm, NonFiniteRowsAreThoseOfTheReference) {
  TestCpu cpu;
  for (const Precision precision : kPrecisions) {
    std::vector<float> x = bf16_values(3 * 70, 10);
    x[70 + 3] = std::nanf("");
    x[140 + 69] = INFINITY;
    std::vector<float> got, want;
    cpu.run<ops::RmsNorm>(args_of(x, 70, {}, precision, got));
    rms_norm_ref(args_of(x, 70, {}, precision, want));
    EXPECT_CLOSE(got, want, {.relative = 0x1p-6});
  }
}

TEST_P(RmsNorm, NoRowsIsANoOp) {
  TestCpu cpu;
  std::vector<float> y;
  cpu.run<ops::RmsNorm>(args_of({}, 64, {}, Precision::kReleased, y));
}

INSTANTIATE_TEST_SUITE_P(EveryTarget, RmsNorm, testing::ValuesIn(test::compiled_targets()),
                         test::target_name);

}  // namespace
}  // namespace baleen
