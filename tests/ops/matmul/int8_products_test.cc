// Products of activations of 8 bits: every instruction set of this machine against plain loops, the largest
// magnitudes in all signs, independence of the batch; and the copies of FP8 weights as integers.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <hwy/targets.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "numeric/e4m3.h"
#include "numeric/e8m0.h"
#include "numeric/int8_group.h"
#include "ops/matmul/int8_copies.h"
#include "ops/matmul/matmul.h"
#include "tests/support/compare.h"
#include "tests/support/random_weights.h"

namespace baleen {
namespace {

using test::random_values;
using test::RandomWeight;

float value_of(const WeightMatrix& int8, std::int64_t n, std::int64_t k) {
  const int byte = static_cast<std::uint8_t>(int8.data[n * int8.cols + int8_place(k)]);
  return static_cast<float>(byte - kInt8Offset) *
         e8m0_to_float(int8.group_scales[n * (int8.cols / 32) + k / 32]);
}

/// FP4 as it is, FP8 as integers.
class Int8Weight {
 public:
  Int8Weight(WeightFormat format, std::int64_t rows, std::int64_t cols, std::uint32_t seed)
      : stored_(format == WeightFormat::kInt8 ? WeightFormat::kFp8 : format, rows, cols, seed) {}
  [[nodiscard]] const WeightMatrix& matrix() {
    return stored_.matrix().format == WeightFormat::kFp4 ? stored_.matrix()
                                                         : copies_.of(stored_.matrix(), pool_);
  }

 private:
  RandomWeight stored_;
  ThreadPool pool_{1};
  Int8Copies copies_;
};

struct Int8Case {
  WeightFormat format;
  std::int64_t target;
};

class Int8Products : public testing::TestWithParam<Int8Case> {
 protected:
  void SetUp() override { hwy::SetSupportedTargetsForTest(GetParam().target); }
  void TearDown() override { hwy::SetSupportedTargetsForTest(0); }

  static std::vector<float> run(const WeightMatrix& weight, std::vector<float>& x, int num_threads = 1,
                                std::int64_t row = 0, std::int64_t num_rows = -1) {
    if (num_rows < 0) num_rows = static_cast<std::int64_t>(x.size()) / weight.cols;
    ThreadPool pool(num_threads);
    Arena scratch(matmul_scratch_bytes(num_rows, weight.cols));
    CpuContext context{pool, scratch};
    std::vector<float> y(static_cast<std::size_t>(num_rows * weight.rows), std::nanf(""));
    const MatmulProduct product{.weight = &weight,
                                .x = {x.data() + row * weight.cols, {num_rows, weight.cols}},
                                .rounding = ActivationRounding::kInt8,
                                .y = {y.data(), {num_rows, weight.rows}}};
    matmul({&product, 1}, context);
    return y;
  }
};

TEST_P(Int8Products, AgreeWithPlainLoops) {
  for (const std::int64_t num_rows : {1, 2, 3, 4, 5, 6, 7, 13}) {
    for (const std::int64_t num_columns : {1, 7, 130}) {
      for (const std::int64_t num_inputs : {128, 384, 1152}) {
        Int8Weight weight(GetParam().format, num_columns, num_inputs, 7);
        auto x = random_values(static_cast<std::size_t>(num_rows * num_inputs), 11);
        const auto got = run(weight.matrix(), x);
        std::vector<float> want(got.size());
        matmul_ref(weight.matrix(), {x.data(), {num_rows, num_inputs}}, ActivationRounding::kInt8, false,
                   {want.data(), {num_rows, num_columns}});
        // Groups' sums are exact; at most 36 of them add up in float32.
        ASSERT_EQ(test::difference(got, want, {.absolute = 1e-4, .relative = 1e-5}), "")
            << num_rows << " rows, " << num_columns << " columns, " << num_inputs << " inputs";
      }
    }
  }
}

TEST_P(Int8Products, OutputsDoNotDependOnCompanyTilesOrThreads) {
  struct Shape {
    std::int64_t rows, columns, inputs;
  };
  for (const auto [num_rows, num_columns, num_inputs] :
       {Shape{29, 200, 512}, Shape{41, 11, 2304}, Shape{133, 40, 1152}, Shape{9, 20, 128}}) {
    Int8Weight weight(GetParam().format, num_columns, num_inputs, 3);
    auto x = random_values(static_cast<std::size_t>(num_rows * num_inputs), 5);
    const auto whole = run(weight.matrix(), x, 2);
    for (const std::int64_t chunk : {1, 2, 3, 4, 5, 6, 11}) {
      for (std::int64_t row = 0; row + chunk <= num_rows; row += chunk) {
        const auto part = run(weight.matrix(), x, 1, row, chunk);
        ASSERT_SAME_BITS(part,
                         std::span(whole).subspan(static_cast<std::size_t>(row * num_columns), part.size()));
      }
    }
  }
}

/// One row of `num_inputs` weights of the largest magnitude, whose signs are those of `sign(k)`.
template <class Sign>
struct LargestWeights {
  LargestWeights(WeightFormat format, std::int64_t num_inputs, Sign sign)
      : codes(static_cast<std::size_t>(num_inputs)), scales(static_cast<std::size_t>(num_inputs / 32), 127) {
    matrix = {
        .format = format, .rows = 1, .cols = num_inputs, .data = codes.data(), .group_scales = scales.data()};
    for (std::int64_t k = 0; k < num_inputs; ++k) {
      if (format == WeightFormat::kFp4) {
        const auto code = static_cast<std::byte>(sign(k) > 0 ? 0x7 : 0xF);
        codes[static_cast<std::size_t>(k / 2)] |= k % 2 == 0 ? code : code << 4;
      } else {
        codes[static_cast<std::size_t>(int8_place(k))] =
            static_cast<std::byte>(kInt8Offset + (sign(k) > 0 ? 1 : -1) * kLargestInt8Weight);
      }
    }
  }
  std::vector<std::byte> codes;
  std::vector<std::uint8_t> scales;
  WeightMatrix matrix;
};

TEST_P(Int8Products, NoSumOverflows) {
  const auto all = [](std::int64_t) { return 1; };
  const auto in_turn = [](std::int64_t k) { return k % 2 == 0 ? 1 : -1; };
  const auto halves = [](std::int64_t k) { return k % 32 < 16 ? 1 : -1; };
  const float largest = GetParam().format == WeightFormat::kFp4 ? 6.0F : kLargestInt8Weight;
  const auto check = [&](auto sign_of_weight, auto sign_of_input) {
    const std::int64_t num_inputs = 256;
    for (const int sign : {1, -1}) {
      const LargestWeights weight(GetParam().format, num_inputs,
                                  [&](std::int64_t k) { return sign * sign_of_weight(k); });
      float want = 0;
      for (const std::int64_t num_rows : {1, 2, 7}) {
        std::vector<float> x;
        want = 0;
        for (std::int64_t i = 0; i < num_rows * num_inputs; ++i) {
          x.push_back(127.0F * static_cast<float>(sign_of_input(i % num_inputs)));
        }
        for (std::int64_t k = 0; k < num_inputs; ++k) {
          want += largest * 127.0F * static_cast<float>(sign * sign_of_weight(k) * sign_of_input(k));
        }
        for (const float got : run(weight.matrix, x)) ASSERT_EQ(got, want) << num_rows << " rows";
      }
    }
  };
  check(all, all);
  check(in_turn, in_turn);
  check(in_turn, all);
  check(halves, all);
  check(halves, halves);
  check(all, in_turn);
}

TEST_P(Int8Products, NonFiniteActivationsStayInTheirRow) {
  Int8Weight weight(GetParam().format, 16, 256, 9);
  for (const float bad :
       {std::nanf(""), std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity()}) {
    for (const std::int64_t num_rows : {3, 9}) {
      auto x = random_values(static_cast<std::size_t>(num_rows * 256), 3);
      x[256 + 77] = bad;
      const auto got = run(weight.matrix(), x);
      for (std::size_t i = 0; i < got.size(); ++i) EXPECT_EQ(std::isfinite(got[i]), i / 16 != 1) << i;
    }
  }
}

TEST_P(Int8Products, NothingAndAlmostNothingIsZero) {
  Int8Weight weight(GetParam().format, 8, 128, 1);
  std::vector<float> none;
  EXPECT_TRUE(run(weight.matrix(), none).empty());
  for (const float tiny : {0.0F, -0.0F, 0x1p-101F, std::numeric_limits<float>::denorm_min()}) {
    for (const std::int64_t num_rows : {1, 6}) {
      std::vector<float> x(static_cast<std::size_t>(num_rows * 128), tiny);
      for (const float got : run(weight.matrix(), x)) EXPECT_EQ(got, 0.0F);
    }
  }
}

std::vector<Int8Case> int8_cases() {
  std::vector<Int8Case> all;
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
    for (const WeightFormat format : {WeightFormat::kInt8, WeightFormat::kFp4})
      all.push_back({format, target});
  }
  return all;
}

std::string int8_case_name(const testing::TestParamInfo<Int8Case>& tested) {
  return fmt::format("{}_{}", hwy::TargetName(tested.param.target), weight_format_name(tested.param.format));
}

INSTANTIATE_TEST_SUITE_P(EveryTarget, Int8Products, testing::ValuesIn(int8_cases()), int8_case_name);

TEST(Int8Copies, AreWithinHalfAUnitAndExactWhereFourBitsFit) {
  const RandomWeight fp8(WeightFormat::kFp8, 140, 384, 5);
  ThreadPool pool(3);
  Int8Copies copies;
  const WeightMatrix& copy = copies.of(fp8.matrix(), pool);
  EXPECT_EQ(&copies.of(fp8.matrix(), pool), &copy);
  ASSERT_EQ(copy.format, WeightFormat::kInt8);
  for (std::int64_t n = 0; n < copy.rows; ++n) {
    for (std::int64_t group = 0; group < copy.cols / 32; ++group) {
      const float unit = e8m0_to_float(copy.group_scales[n * (copy.cols / 32) + group]);
      for (std::int64_t k = 32 * group; k < 32 * group + 32; ++k) {
        const float scale = fp8.matrix().block_scales[n / 128 * 3 + k / 128];
        const float want =
            e4m3_to_float(static_cast<std::uint8_t>(fp8.matrix().data[n * copy.cols + k])) * scale;
        const float got = value_of(copy, n, k);
        ASSERT_LE(std::abs(got - want), std::abs(want) >= 8 * unit ? 0.0F : unit / 2) << n << ", " << k;
        ASSERT_LE(std::abs(got), kLargestInt8Weight * unit);
      }
    }
  }
}

TEST(Int8Copies, NaNMakesAllProductsOfItsGroupNotFinite) {
  std::vector<std::byte> codes(128, std::byte{0x38});  // ones
  codes[40] = std::byte{0x7F};
  const float scale = 1.0F;
  const WeightMatrix fp8{
      .format = WeightFormat::kFp8, .rows = 1, .cols = 128, .data = codes.data(), .block_scales = &scale};
  ThreadPool pool(1);
  Int8Copies copies;
  const WeightMatrix& copy = copies.of(fp8, pool);
  EXPECT_EQ(copy.group_scales[0], kE8m0Bias - 5);  // 32 units
  EXPECT_EQ(copy.group_scales[1], kE8m0NaN);
  EXPECT_TRUE(std::isnan(value_of(copy, 0, 33)));
}

}  // namespace
}  // namespace baleen
