// Products by AMX's tiles, through an emulation of them: against plain loops, over every tail; that an output
// does not depend on the rest of the batch; and that the machine's own tiles, where it has any, give the same
// bits.
#include "tests/support/every_target.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "numeric/bf16_dots.h"
#include "numeric/bf16_tiles.h"
#include "ops/matmul/matmul.h"
#include "tests/support/compare.h"
#include "tests/support/emulated_tiles.h"
#include "tests/support/random_weights.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "amx_products_test.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "ops/matmul/amx_products-inl.h"

HWY_BEFORE_NAMESPACE();
namespace baleen::HWY_NAMESPACE {

#if HWY_TARGET == HWY_AVX3
template <class Use>
void with_format(WeightFormat format, const Use& use) {
  if (format == WeightFormat::kFp8) return use(AmxProducts<WeightFormat::kFp8, test::EmulatedTiles>());
  if (format == WeightFormat::kFp8x32) return use(AmxProducts<WeightFormat::kFp8x32, test::EmulatedTiles>());
  if (format == WeightFormat::kNvfp4) return use(AmxProducts<WeightFormat::kNvfp4, test::EmulatedTiles>());
  use(AmxProducts<WeightFormat::kFp4, test::EmulatedTiles>());
}

void emulated_pack(std::span<const float> x, WeightFormat format, ActivationRounding rounding,
                   float* packed) {
  with_format(format, [&](auto products) {
    products.pack_row(x.data(), static_cast<std::int64_t>(x.size()), rounding, packed);
  });
}
void emulated_tile(const MatmulTile& tile) {
  with_format(tile.weight->format, [&](auto products) { products.run(tile); });
}
#else
void emulated_pack(std::span<const float>, WeightFormat, ActivationRounding, float*) {}
void emulated_tile(const MatmulTile&) {}
#endif

}  // namespace baleen::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace baleen {

HWY_EXPORT(emulated_pack);
HWY_EXPORT(emulated_tile);

namespace {

using test::random_values;
using test::RandomWeight;

/// As the format's model rounds.
ActivationRounding rounding_of(WeightFormat format) {
  return format == WeightFormat::kFp8x32 ? ActivationRounding::kFp8x32 : ActivationRounding::kFp8;
}

class AmxProductsTest : public testing::TestWithParam<WeightFormat> {
 protected:
  void SetUp() override {
    const auto targets = test::compiled_targets();
    if (std::ranges::find(targets, HWY_AVX3) == targets.end() || !machine_has_bf16_dots()) {
      GTEST_SKIP() << "no AVX-512 with byte permutations";
    }
    hwy::SetSupportedTargetsForTest(HWY_AVX3);
  }
  void TearDown() override { hwy::SetSupportedTargetsForTest(0); }

  /// 64-byte aligned rows [num_rows, num_inputs].
  struct Packed {
    explicit Packed(std::size_t count) : values(count + 16) {}
    float* data() {
      const auto address = reinterpret_cast<std::uintptr_t>(values.data());
      return values.data() + (64 - address % 64) % 64 / sizeof(float);
    }
    std::vector<float> values;
  };

  static Packed pack(WeightFormat format, const std::vector<float>& x, std::int64_t num_inputs) {
    Packed packed(x.size());
    for (std::size_t at = 0; at < x.size(); at += static_cast<std::size_t>(num_inputs)) {
      HWY_DYNAMIC_DISPATCH(emulated_pack)
      ({x.data() + at, static_cast<std::size_t>(num_inputs)}, format, rounding_of(format),
       packed.data() + at);
    }
    return packed;
  }

  static std::vector<float> run(const WeightMatrix& weight, const std::vector<float>& x,
                                bool round_bf16 = false) {
    Packed packed = pack(weight.format, x, weight.cols);
    const std::int64_t num_rows = static_cast<std::int64_t>(x.size()) / weight.cols;
    std::vector<float> y(static_cast<std::size_t>(num_rows * weight.rows), std::nanf(""));
    HWY_DYNAMIC_DISPATCH(emulated_tile)
    ({.weight = &weight,
      .n_begin = 0,
      .n_end = weight.rows,
      .rounding = rounding_of(weight.format),
      .packed = packed.data(),
      .num_rows = num_rows,
      .y = y.data(),
      .y_stride = weight.rows,
      .round_bf16 = round_bf16});
    return y;
  }

  static std::vector<float> reference(const WeightMatrix& weight, std::vector<float>& x, bool round = false) {
    const std::int64_t num_rows = static_cast<std::int64_t>(x.size()) / weight.cols;
    std::vector<float> y(static_cast<std::size_t>(num_rows * weight.rows));
    matmul_ref(weight, {x.data(), {num_rows, weight.cols}}, rounding_of(weight.format), round,
               {y.data(), {num_rows, weight.rows}});
    return y;
  }
};

TEST_P(AmxProductsTest, AgreeWithPlainLoops) {
  for (const std::int64_t num_rows : {1, 2, 5, 9, 16, 17, 50}) {
    for (const std::int64_t num_columns : {1, 16, 40, 290}) {
      for (const std::int64_t num_inputs : {128, 640, 1152}) {
        if (num_columns == 290 && num_inputs != 128) continue;
        const RandomWeight weight(GetParam(), num_columns, num_inputs, 7);
        auto x = random_values(static_cast<std::size_t>(num_rows * num_inputs), 11);
        // Float32 sums of up to 1,152 products against float64 ones.
        ASSERT_EQ(test::difference(run(weight.matrix(), x), reference(weight.matrix(), x),
                                   {.absolute = 2e-4, .relative = 1e-5}),
                  "")
            << num_rows << " rows, " << num_columns << " columns, " << num_inputs << " inputs";
      }
    }
  }
}

TEST_P(AmxProductsTest, OutputsDoNotDependOnTheOtherRowsOrColumns) {
  const std::int64_t num_rows = 133, num_columns = 44, num_inputs = 640;
  const RandomWeight weight(GetParam(), num_columns, num_inputs, 3);
  auto x = random_values(num_rows * num_inputs, 5);
  const auto factors = random_values(num_rows * num_inputs, 6);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] *= factors[i];  // many binades in a block
  for (const bool round_bf16 : {false, true}) {
    const auto whole = run(weight.matrix(), x, round_bf16);
    for (const std::int64_t count : {1, 3, 6, 16, 29, 48}) {
      for (std::int64_t row = 0; row + count <= num_rows; row += count) {
        const std::vector<float> rows(x.begin() + row * num_inputs, x.begin() + (row + count) * num_inputs);
        const auto part = run(weight.matrix(), rows, round_bf16);
        ASSERT_SAME_BITS(part,
                         std::span(whole).subspan(static_cast<std::size_t>(row * num_columns), part.size()));
      }
    }
  }
  // Some columns, of some rows in another order.
  const auto whole = run(weight.matrix(), x);
  Packed packed = pack(GetParam(), x, num_inputs);
  for (const std::vector<std::int32_t>& index : {std::vector<std::int32_t>{130}, {7, 3, 120, 4, 4}}) {
    std::vector<float> y(index.size() * num_columns, -1.0F);
    HWY_DYNAMIC_DISPATCH(emulated_tile)
    ({.weight = &weight.matrix(),
      .n_begin = 8,
      .n_end = 35,
      .rounding = rounding_of(GetParam()),
      .packed = packed.data(),
      .row_index = index.data(),
      .num_rows = static_cast<std::int64_t>(index.size()),
      .y = y.data(),
      .y_stride = num_columns});
    for (std::size_t row = 0; row < index.size(); ++row) {
      for (std::size_t column = 0; column < num_columns; ++column) {
        const float want = column < 8 || column >= 35
                               ? -1.0F
                               : whole[static_cast<std::size_t>(index[row]) * num_columns + column];
        ASSERT_EQ(y[row * num_columns + column], want) << row << ", " << column;
      }
    }
  }
}

TEST_P(AmxProductsTest, NonFiniteActivationsStayInTheirRow) {
  const RandomWeight weight(GetParam(), 20, 256, 9);
  for (const std::int64_t num_rows : {3, 9, 30}) {
    auto x = random_values(static_cast<std::size_t>(num_rows * 256), 10);
    x[256 + 17] = std::nanf("");
    const auto got = run(weight.matrix(), x);
    for (std::size_t i = 0; i < got.size(); ++i) EXPECT_EQ(std::isnan(got[i]), i / 20 == 1) << i;
  }
}

TEST_P(AmxProductsTest, NoRowsOrColumnsIsANoOp) {
  const RandomWeight weight(GetParam(), 8, 128, 1);
  EXPECT_TRUE(run(weight.matrix(), {}).empty());
}

TEST_P(AmxProductsTest, TheMachinesOwnTilesGiveTheSameBits) {
  if (!machine_has_bf16_tiles()) GTEST_SKIP() << "no AMX";
  for (const std::int64_t num_rows : {1, 3, 8, 13, 16, 17, 140}) {
    const std::int64_t num_columns = 300, num_inputs = 896;
    const RandomWeight weight(GetParam(), num_columns, num_inputs, 21);
    auto x = random_values(static_cast<std::size_t>(num_rows * num_inputs), 22);
    std::vector<float> y(static_cast<std::size_t>(num_rows * num_columns));
    ThreadPool pool(2);
    Arena scratch(matmul_scratch_bytes(num_rows, num_inputs));
    CpuContext context{pool, scratch};
    const MatmulProduct product{.weight = &weight.matrix(),
                                .x = {x.data(), {num_rows, num_inputs}},
                                .rounding = rounding_of(GetParam()),
                                .y = {y.data(), {num_rows, num_columns}}};
    matmul({&product, 1}, context);
    ASSERT_SAME_BITS(y, run(weight.matrix(), x)) << num_rows << " rows";
  }
}

/// One row of 128 inputs whose groups have these scales and codes.
struct FourGroups {
  FourGroups(const std::vector<std::uint8_t>& group_scales, const std::vector<std::uint8_t>& codes)
      : scales(group_scales) {
    for (const std::uint8_t code : codes) data.insert(data.end(), 16, std::byte(code * 17));
  }
  [[nodiscard]] WeightMatrix matrix() const {
    return {.format = WeightFormat::kFp4,
            .rows = 1,
            .cols = 128,
            .data = data.data(),
            .group_scales = scales.data()};
  }
  std::vector<std::byte> data;
  std::vector<std::uint8_t> scales;
};

class AmxFp4Test : public AmxProductsTest {};

TEST_P(AmxFp4Test, ScalesFarApartInABlock) {
  constexpr std::uint8_t kOne = 2, kMinusOne = 10;
  std::vector<float> x(128, 1.0F);
  // The smallest scale is 2^90 below the largest, whose products cancel.
  const FourGroups cancelling({217, 217, 127, 127}, {kOne, kMinusOne, kOne, kOne});
  // One that is further below counts as zero, as do those of groups without weights, whatever their scale.
  const FourGroups too_small({218, 127, 218, 127}, {kOne, kOne, kOne, kOne});
  const FourGroups empty({1, 127, 130, 1}, {0, kOne, kOne, 0});
  for (const std::int64_t num_rows : {1, 3, 20}) {
    std::vector<float> rows;
    for (std::int64_t row = 0; row < num_rows; ++row) rows.insert(rows.end(), x.begin(), x.end());
    for (const float got : run(cancelling.matrix(), rows)) EXPECT_EQ(got, 64.0F);
    for (const float got : run(too_small.matrix(), rows)) EXPECT_EQ(got, 64 * 0x1p91F);
    for (const float got : run(empty.matrix(), rows)) EXPECT_EQ(got, 32 * (1.0F + 8.0F));
  }
}

TEST_P(AmxFp4Test, ExtremeScales) {
  std::vector<float> x(128, 0.0F);
  x[77] = 0.5F;
  for (const int code : {0, 1, 254}) {
    const auto scale = static_cast<std::uint8_t>(code);
    const FourGroups weight({scale, scale, scale, scale}, {2, 2, 2, 2});
    EXPECT_EQ(run(weight.matrix(), x)[0], std::ldexp(1.0F, code - 128)) << code;
  }
}

std::string format_name(const testing::TestParamInfo<WeightFormat>& tested) {
  return tested.param == WeightFormat::kFp8x32 ? "fp8x32" : std::string(weight_format_name(tested.param));
}
INSTANTIATE_TEST_SUITE_P(EveryFormat, AmxProductsTest,
                         testing::Values(WeightFormat::kFp8, WeightFormat::kFp8x32, WeightFormat::kFp4,
                                         WeightFormat::kNvfp4),
                         format_name);
INSTANTIATE_TEST_SUITE_P(Fp4, AmxFp4Test, testing::Values(WeightFormat::kFp4), format_name);

}  // namespace
}  // namespace baleen
#endif  // HWY_ONCE
