// The tile kernel against plain loops: every packed format, every instruction set of this machine, every
// tail; and its promise that an output does not depend on the rest of the batch, on tiles or on threads.
#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "numeric/bf16_dots.h"
#include "numeric/bf16_tiles.h"
#include "numeric/e2m1.h"
#include "numeric/e4m3.h"
#include "ops/matmul/matmul.h"
#include "tests/support/compare.h"
#include "tests/support/random_weights.h"

namespace baleen {
namespace {

using test::random_values;
using test::RandomWeight;

/// Products of two normal values: many binades in a block.
std::vector<float> wide_values(std::int64_t count, std::uint32_t seed) {
  auto values = random_values(static_cast<std::size_t>(count), seed);
  const auto factors = random_values(static_cast<std::size_t>(count), seed + 1000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] *= factors[i];
  return values;
}

/// An upper bound of the sum of magnitudes of an output's products.
double bound_of(const WeightMatrix& weight, std::span<const float> x) {
  double sum = 0;
  for (const float value : x) sum += std::abs(value);
  double largest = 0;
  std::vector<float> unit(x.size()), column(static_cast<std::size_t>(weight.rows));
  for (std::size_t i = 0; i < x.size(); ++i) {
    unit.assign(x.size(), 0.0F);
    unit[i] = 1.0F;
    matmul_ref(weight, {unit.data(), {1, weight.cols}}, ActivationRounding::kNone, false,
               {column.data(), {1, weight.rows}});
    for (const float value : column) largest = std::max<double>(largest, std::abs(value));
  }
  return sum * largest;
}

constexpr WeightFormat kFormats[] = {WeightFormat::kF32,    WeightFormat::kBF16, WeightFormat::kFp8,
                                     WeightFormat::kFp8x32, WeightFormat::kFp4,  WeightFormat::kNvfp4,
                                     WeightFormat::kQ8};
/// Of activations in front of codes: per 128 inputs, and per 32.
constexpr ActivationRounding kCodeRoundings[] = {ActivationRounding::kFp8, ActivationRounding::kFp8x32};

struct Case {
  WeightFormat format;
  std::int64_t target;
  bool bf16_dots = false;
  bool bf16_tiles = false;
};

class Matmul : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    hwy::SetSupportedTargetsForTest(GetParam().target);
    choose_bf16_dots(GetParam().bf16_dots ? Bf16Dots::kAlways : Bf16Dots::kNever);
    allow_bf16_tiles(GetParam().bf16_tiles);
  }
  void TearDown() override {
    hwy::SetSupportedTargetsForTest(0);
    choose_bf16_dots(Bf16Dots::kWhereFaster);
    allow_bf16_tiles(true);
  }

  static std::vector<float> run(const WeightMatrix& weight, std::vector<float>& x,
                                ActivationRounding rounding, bool round_bf16, int num_threads,
                                std::int64_t row = 0, std::int64_t num_rows = -1) {
    const std::int64_t total = static_cast<std::int64_t>(x.size()) / weight.cols;
    if (num_rows < 0) num_rows = total;
    ThreadPool pool(num_threads);
    Arena scratch(matmul_scratch_bytes(num_rows, weight.cols));
    CpuContext context{pool, scratch};
    std::vector<float> y(static_cast<std::size_t>(num_rows * weight.rows), std::nanf(""));
    const MatmulProduct product{.weight = &weight,
                                .x = {x.data() + row * weight.cols, {num_rows, weight.cols}},
                                .rounding = rounding,
                                .round_bf16 = round_bf16,
                                .y = {y.data(), {num_rows, weight.rows}}};
    matmul({&product, 1}, context);
    return y;
  }
};

TEST_P(Matmul, AgreesWithPlainLoops) {
  for (const std::int64_t num_rows : {1, 2, 3, 4, 5, 6, 7, 13}) {
    for (const std::int64_t num_columns : {1, 7, 130}) {
      for (const std::int64_t num_inputs : {128, 384}) {
        for (const auto rounding :
             {ActivationRounding::kNone, ActivationRounding::kFp8, ActivationRounding::kFp8x32}) {
          const RandomWeight weight(GetParam().format, num_columns, num_inputs, 7);
          auto x = random_values(static_cast<std::size_t>(num_rows * num_inputs), 11);
          const auto got = run(weight.matrix(), x, rounding, false, 1);
          std::vector<float> want(got.size());
          matmul_ref(weight.matrix(), {x.data(), {num_rows, num_inputs}}, rounding, false,
                     {want.data(), {num_rows, num_columns}});
          // Float32 sums of 384 products against float64 ones: a few units in the last place of the largest
          // partial sum.
          ASSERT_EQ(test::difference(got, want, {.absolute = 1e-4, .relative = 1e-5}), "")
              << num_rows << " rows, " << num_columns << " columns, " << num_inputs << " inputs";
        }
      }
    }
  }
}

TEST_P(Matmul, OutputsDoNotDependOnCompanyTilesOrThreads) {
  struct Shape {
    std::int64_t rows, columns, inputs;
  };
  // More columns than panels lie abreast; many panels of inputs; more rows than pass a panel, and inputs
  // whose last panel and last four loads of FP4 are not full.
  for (const auto [num_rows, num_columns, num_inputs] :
       {Shape{29, 200, 512}, Shape{41, 11, 2304}, Shape{133, 40, 1152}}) {
    const RandomWeight weight(GetParam().format, num_columns, num_inputs, 3);
    auto x = wide_values(num_rows * num_inputs, 5);
    for (const auto rounding : kCodeRoundings) {
      const bool round_bf16 = rounding == ActivationRounding::kFp8x32;
      const auto whole = run(weight.matrix(), x, rounding, round_bf16, 2);
      for (const std::int64_t chunk : {1, 2, 3, 4, 5, 6, 11}) {
        for (std::int64_t row = 0; row + chunk <= num_rows; row += chunk) {
          const auto part = run(weight.matrix(), x, rounding, round_bf16, 1, row, chunk);
          ASSERT_SAME_BITS(
              part, std::span(whole).subspan(static_cast<std::size_t>(row * num_columns), part.size()));
        }
      }
    }
  }
}

TEST_P(Matmul, EveryActivationCodeCounts) {
  // Every e4m3 code beside the largest, so that a block's values span all 18 bits of their integers.
  const std::int64_t num_inputs = 256, num_columns = 12;
  std::vector<float> x;
  for (int code = 0; code < 256; ++code) x.push_back(e4m3_to_float(static_cast<std::uint8_t>(code)));
  for (float& value : x) value = std::isnan(value) ? 448.0F : value;
  std::mt19937 random(17);
  std::shuffle(x.begin() + 1, x.end(), random);
  const RandomWeight weight(GetParam().format, num_columns, num_inputs, 19);
  const double bound = bound_of(weight.matrix(), x);
  for (const std::int64_t num_rows : {1, 4, 7}) {
    std::vector<float> rows;
    for (std::int64_t row = 0; row < num_rows; ++row) rows.insert(rows.end(), x.begin(), x.end());
    const auto got = run(weight.matrix(), rows, ActivationRounding::kFp8, false, 1);
    std::vector<float> want(static_cast<std::size_t>(num_columns));
    matmul_ref(weight.matrix(), {x.data(), {1, num_inputs}}, ActivationRounding::kFp8, false,
               {want.data(), {1, num_columns}});
    for (std::size_t i = 0; i < got.size(); ++i) {
      // At most 64 products or sums of groups in a lane, then the lanes: each rounding is half a unit in the
      // last place.
      ASSERT_NEAR(got[i], want[i % want.size()], 72 * 0x1p-25 * bound) << i;
    }
  }
}

/// Groups of 32 have scales of their own: zeros, the least scale, saturation of the largest, and values that
/// a scale of all 128 would have lost. Weights are ones in one group, so that an output is the sum of what
/// its activations have become.
TEST_P(Matmul, GroupsOf32AreRoundedByTheirOwnScales) {
  const std::int64_t num_inputs = 256;
  if (!is_fp8(GetParam().format) && GetParam().format != WeightFormat::kFp4) GTEST_SKIP() << "of codes";
  const bool fp4 = GetParam().format == WeightFormat::kFp4;
  std::vector<std::byte> data(static_cast<std::size_t>(3 * num_inputs));
  const std::vector<std::uint8_t> codes(static_cast<std::size_t>(3 * num_inputs / 32), 127);
  const std::vector<float> floats(static_cast<std::size_t>(3 * num_inputs / 32), 1.0F);
  WeightMatrix weight{.format = GetParam().format, .rows = 3, .cols = num_inputs, .data = data.data()};
  weight.set_scales(GetParam().format == WeightFormat::kFp8
                        ? reinterpret_cast<const std::byte*>(floats.data())
                        : reinterpret_cast<const std::byte*>(codes.data()));
  struct Group {
    float value, becomes;
  };
  // 1e-4 / 448 is rounded up to 2^-22; subnormal codes are multiples of 2^-9 of it; 460.8 / 2 is between 224
  // and 240; what a group of ones beside 2^17 keeps.
  const Group groups[] = {{0.0F, 0.0F}, {0x1p-31F, 0x1p-31F}, {0x1.8p-32F, 0x1p-31F}, {460.8F, 448.0F},
                          {1.0F, 1.0F}, {0x1p17F, 0x1p17F},   {-0x1p-20F, -0x1p-20F}, {0x1.1p-24F, 0x1p-24F}};
  for (std::size_t group = 0; group < std::size(groups); ++group) {
    const std::size_t row_bytes = static_cast<std::size_t>(weight.row_bytes()), bytes = row_bytes / 8;
    for (std::size_t i = 0; i < 3 * row_bytes; ++i)
      data[i] = i % row_bytes / bytes == group ? std::byte{static_cast<std::uint8_t>(fp4 ? 0x22 : 0x38)}
                                               : std::byte{0};
    for (const std::int64_t num_rows : {1, 3, 6, 18}) {
      std::vector<float> x;
      for (std::int64_t row = 0; row < num_rows; ++row)
        for (std::int64_t k = 0; k < num_inputs; ++k)
          x.push_back(groups[static_cast<std::size_t>(k / 32)].value);
      for (const float got : run(weight, x, ActivationRounding::kFp8x32, false, 1))
        ASSERT_EQ(got, 32 * groups[group].becomes) << "group " << group << ", " << num_rows << " rows";
    }
  }
}

/// One row of 128 FP4 weights that are all of one code, with scales of 1.
class UniformFp4Row {
 public:
  explicit UniformFp4Row(std::uint8_t code) : data_(64, static_cast<std::byte>(code | code << 4)) {}
  [[nodiscard]] WeightMatrix matrix() const {
    return {.format = WeightFormat::kFp4,
            .rows = 1,
            .cols = 128,
            .data = data_.data(),
            .group_scales = scales_.data()};
  }

 private:
  std::vector<std::byte> data_;
  std::vector<std::uint8_t> scales_ = std::vector<std::uint8_t>(4, 127);
};

TEST_P(Matmul, SmallestStepsBesideTheLargestValueAreNotLost) {
  if (GetParam().format != WeightFormat::kFp4) GTEST_SKIP() << "of integer products";
  const UniformFp4Row ones(0x2);
  const WeightMatrix weight = ones.matrix();
  for (const float sign : {1.0F, -1.0F}) {
    // Of 31 largest values in a group, integers are of a coarser unit.
    for (const int num_largest : {1, 31}) {
      std::vector<float> x(128, sign * 0x1p-9F);
      std::fill_n(x.begin() + 1, num_largest, 448.0F);
      for (const std::int64_t num_rows : {1, 6}) {
        std::vector<float> rows;
        for (std::int64_t row = 0; row < num_rows; ++row) rows.insert(rows.end(), x.begin(), x.end());
        for (const float got : run(weight, rows, ActivationRounding::kFp8, false, 1)) {
          EXPECT_EQ(got, static_cast<float>(num_largest) * 448.0F +
                             sign * static_cast<float>(128 - num_largest) * 0x1p-9F);
        }
      }
    }
  }
}

TEST_P(Matmul, SumsOfLargeMagnitudesDoNotOverflow) {
  if (GetParam().format != WeightFormat::kFp4) GTEST_SKIP() << "of integer products";
  for (const auto code : {std::uint8_t{0x7}, std::uint8_t{0xF}}) {  // 6 and -6
    const UniformFp4Row sixes(code);
    const float weight = code == 0x7 ? 6.0F : -6.0F;
    // The sum of a group's magnitudes passes what the finer unit holds: 32 * 341.3.
    for (const float value : {320.0F, 352.0F, 448.0F}) {
      for (const float sign : {1.0F, -1.0F}) {
        for (const std::int64_t num_rows : {1, 2, 5}) {
          std::vector<float> x(static_cast<std::size_t>(num_rows * 128), sign * value);
          for (const float got : run(sixes.matrix(), x, ActivationRounding::kFp8, false, 1)) {
            EXPECT_EQ(got, 128 * weight * sign * value);
          }
        }
      }
    }
  }
}

TEST_P(Matmul, TinyAndSubnormalValuesDoNotDependOnTheNumberOfRows) {
  const std::int64_t num_inputs = 256, num_columns = 20;
  const RandomWeight weight(GetParam().format, num_columns, num_inputs, 23);
  std::mt19937 random(29);
  for (const int largest : {-140, -80, -56, -20, 60}) {
    std::vector<float> x;
    for (const float value : random_values(static_cast<std::size_t>(7 * num_inputs), 31)) {
      x.push_back(std::ldexp(value, largest - static_cast<int>(random() % 60)));
    }
    const auto whole = run(weight.matrix(), x, ActivationRounding::kNone, false, 1);
    for (std::int64_t row = 0; row < 7; ++row) {
      const auto part = run(weight.matrix(), x, ActivationRounding::kNone, false, 1, row, 1);
      ASSERT_SAME_BITS(part,
                       std::span(whole).subspan(static_cast<std::size_t>(row * num_columns), part.size()));
    }
  }
}

TEST_P(Matmul, NonFiniteActivationsStayInTheirRow) {
  const RandomWeight weight(GetParam().format, 16, 256, 9);
  for (const auto rounding : {ActivationRounding::kNone, ActivationRounding::kFp8}) {
    for (const std::int64_t num_rows : {3, 9}) {
      auto x = random_values(static_cast<std::size_t>(num_rows * 256), 10);
      x[256 + 17] = std::nanf("");
      const auto got = run(weight.matrix(), x, rounding, true, 1);
      for (std::size_t i = 0; i < got.size(); ++i) {
        EXPECT_EQ(std::isnan(got[i]), i / 16 == 1) << i;
        EXPECT_EQ(std::isfinite(got[i]), i / 16 != 1) << i;
      }
    }
  }
}

TEST_P(Matmul, ExtremeScales) {
  if (GetParam().format != WeightFormat::kFp4) GTEST_SKIP() << "e8m0 group scales belong to FP4";
  for (const int code : {0, 1, 254}) {
    std::vector<std::byte> data(64, std::byte{0x22});  // all ones
    std::vector<std::uint8_t> scales(4, static_cast<std::uint8_t>(code));
    const WeightMatrix weight{.format = WeightFormat::kFp4,
                              .rows = 1,
                              .cols = 128,
                              .data = data.data(),
                              .group_scales = scales.data()};
    std::vector<float> x(128, 0.0F);
    x[77] = 0.5F;
    for (const auto rounding : {ActivationRounding::kNone, ActivationRounding::kFp8}) {
      const auto got = run(weight, x, rounding, false, 1);
      EXPECT_EQ(got[0], std::ldexp(1.0F, code - 128)) << code;
    }
  }
}

/// All weights of a group in turn, and one output for each scale: what is stored, times the matrix's scale.
TEST_P(Matmul, EveryScaleAndCodeOfNvfp4) {
  if (GetParam().format != WeightFormat::kNvfp4) GTEST_SKIP() << "e4m3 group scales belong to NVFP4";
  constexpr int kScales = 127;  // but NaN
  std::vector<std::byte> data(std::size_t{kScales} * 64);
  for (std::size_t i = 0; i < data.size(); ++i)
    data[i] = static_cast<std::byte>((2 * i % 16) | (2 * i + 1) % 16 << 4);
  std::vector<std::uint8_t> scales;
  for (int scale = 0; scale < kScales; ++scale)
    scales.insert(scales.end(), 8, static_cast<std::uint8_t>(scale));
  const float matrix_scale = 0.3F;
  const WeightMatrix weight{.format = WeightFormat::kNvfp4,
                            .rows = kScales,
                            .cols = 128,
                            .data = data.data(),
                            .group_scales = scales.data(),
                            .matrix_scale = &matrix_scale};
  for (const auto rounding : {ActivationRounding::kNone, ActivationRounding::kFp8}) {
    for (const std::int64_t num_rows : {1, 6}) {
      for (std::size_t k = 0; k < 128; k += 5) {
        std::vector<float> x(static_cast<std::size_t>(num_rows) * 128, 0.0F);
        for (std::int64_t row = 0; row < num_rows; ++row) x[static_cast<std::size_t>(row) * 128 + k] = 1.5F;
        const auto got = run(weight, x, rounding, false, 1);
        for (std::size_t i = 0; i < got.size(); ++i) {
          const float value = e2m1_to_float(static_cast<std::uint8_t>(k % 16)) *
                              e4m3_to_float(static_cast<std::uint8_t>(i % kScales));
          ASSERT_EQ(got[i], 1.5F * value * matrix_scale) << "input " << k << ", scale code " << i % kScales;
        }
      }
    }
  }
}

/// Groups have scales of their own, 16 inputs each.
TEST_P(Matmul, EveryGroupOfNvfp4HasItsScale) {
  if (GetParam().format != WeightFormat::kNvfp4) GTEST_SKIP() << "e4m3 group scales belong to NVFP4";
  const RandomWeight weight(WeightFormat::kNvfp4, 9, 384, 23);
  for (std::int64_t k = 0; k < 384; ++k) {
    std::vector<float> x(384, 0.0F), want(9);
    x[static_cast<std::size_t>(k)] = -0.75F;
    matmul_ref(weight.matrix(), {x.data(), {1, 384}}, ActivationRounding::kNone, false,
               {want.data(), {1, 9}});
    for (const auto rounding : {ActivationRounding::kNone, ActivationRounding::kFp8})
      ASSERT_EQ(run(weight.matrix(), x, rounding, false, 1), want) << k;
  }
}

TEST_P(Matmul, NoRowsIsANoOp) {
  const RandomWeight weight(GetParam().format, 8, 128, 1);
  std::vector<float> x;
  EXPECT_TRUE(run(weight.matrix(), x, ActivationRounding::kNone, false, 2).empty());
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
    for (const WeightFormat format : kFormats) all.push_back({format, target});
    if (target != HWY_AVX3 || !machine_has_bf16_dots()) continue;
    for (const WeightFormat format :
         {WeightFormat::kFp8, WeightFormat::kFp8x32, WeightFormat::kFp4, WeightFormat::kNvfp4}) {
      all.push_back({format, target, true});
      if (machine_has_bf16_tiles()) all.push_back({format, target, true, true});
    }
  }
  return all;
}

std::string case_name(const testing::TestParamInfo<Case>& tested) {
  const std::string format(
      tested.param.format == WeightFormat::kFp8x32 ? "fp8x32" : weight_format_name(tested.param.format));
  const std::string products = tested.param.bf16_tiles ? "_AMX_" : tested.param.bf16_dots ? "_BF16_" : "_";
  return hwy::TargetName(tested.param.target) + products + format;
}

INSTANTIATE_TEST_SUITE_P(EveryTarget, Matmul, testing::ValuesIn(cases()), case_name);

}  // namespace
}  // namespace baleen
