// Matrices between formats: what is called lossless is compared value by value, what rounds stays within half
// a step.
#include "model_files/matrix_codec.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cmath>

#include "model_files/random.h"
#include "numeric/block_scale.h"
#include "numeric/e8m0.h"

namespace baleen {
namespace {

constexpr std::int64_t kRows = 192;  // a full panel and a half one
constexpr std::int64_t kCols = 256;

std::vector<float> decode(const StoredMatrix& matrix) {
  std::vector<float> values(static_cast<std::size_t>(matrix.rows * matrix.cols));
  for (std::int64_t panel = 0; panel < matrix.num_panels(); ++panel) {
    decode_panel(matrix, panel,
                 std::span(values).subspan(static_cast<std::size_t>(panel * kPanelRows * matrix.cols)));
  }
  return values;
}

EncodedMatrix encode(const std::vector<float>& values, WeightFormat format) {
  EncodedMatrix matrix;
  matrix.reset(kRows, kCols, format);
  for (std::int64_t panel = 0; panel < matrix.view().num_panels(); ++panel) {
    encode_panel(matrix, panel,
                 std::span(values).subspan(static_cast<std::size_t>(panel * kPanelRows * kCols)));
  }
  return matrix;
}

EncodedMatrix recode(const EncodedMatrix& fp4) {
  EncodedMatrix fp8;
  fp8.reset(fp4.rows, fp4.cols, WeightFormat::kFp8);
  for (std::int64_t panel = 0; panel < fp4.view().num_panels(); ++panel) recode_panel(fp4.view(), panel, fp8);
  return fp8;
}

/// Random codes, and scales within [lowest, lowest + spread].
EncodedMatrix random_fp4(std::uint64_t seed, int lowest, int spread) {
  EncodedMatrix matrix;
  matrix.reset(kRows, kCols, WeightFormat::kFp4);
  const CounterRandom codes(seed, "codes"), scales(seed, "scales");
  for (std::size_t i = 0; i < matrix.weight.size(); ++i)
    matrix.weight[i] = static_cast<std::byte>(codes.bits(i));
  for (std::size_t i = 0; i < matrix.scale.size(); ++i) {
    matrix.scale[i] = static_cast<std::byte>(lowest + static_cast<int>(scales.bits(i) % (spread + 1u)));
  }
  return matrix;
}

std::vector<float> random_values(std::uint64_t seed, int exponent) {
  std::vector<float> values(static_cast<std::size_t>(kRows * kCols));
  const CounterRandom random(seed, "values");
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = std::ldexp(random.normal(i), exponent);
  return values;
}

TEST(MatrixCodec, RecodingIsExactUpToARatioOf2To14) {
  EXPECT_TRUE(rc::check([](std::uint64_t seed) {
    const int lowest = *rc::gen::inRange(0, 240);
    const int spread = *rc::gen::inRange(0, 15);
    const EncodedMatrix fp4 = random_fp4(seed, lowest, spread);
    RC_ASSERT(decode(recode(fp4).view()) == decode(fp4.view()));
  }));
}

TEST(MatrixCodec, RecodingScaleIsTheLargestOver64) {
  EncodedMatrix fp4 = random_fp4(1, 100, 0);
  fp4.scale[5] = std::byte{110};  // row 0, columns 160..191: block column 1
  const EncodedMatrix fp8 = recode(fp4);
  EXPECT_EQ(fp8.scale, (std::vector<std::byte>{std::byte{94}, std::byte{104}, std::byte{94}, std::byte{94}}));
}

TEST(MatrixCodec, RecodingBeyond2To14LosesTheSmallest) {
  EncodedMatrix fp4 = random_fp4(1, 100, 0);
  fp4.weight[0] = std::byte{0x11};  // two codes of 0.5
  fp4.scale[1] = std::byte{115};    // 2^15 times the scale of the first 32 columns
  const std::vector<float> before = decode(fp4.view()), after = decode(recode(fp4).view());
  EXPECT_EQ(before[0], std::ldexp(0.5F, 100 - 127));
  EXPECT_EQ(after[0], 0.0F);  // a tie between 0 and the smallest subnormal
}

TEST(MatrixCodec, Bf16HoldsFp4AndFp8) {
  EXPECT_TRUE(rc::check([](std::uint64_t seed) {
    const std::vector<float> fp4 = decode(random_fp4(seed, *rc::gen::inRange(10, 230), 14).view());
    RC_ASSERT(decode(encode(fp4, WeightFormat::kBF16).view()) == fp4);
    const std::vector<float> fp8 = decode(encode(random_values(seed, -4), WeightFormat::kFp8).view());
    RC_ASSERT(decode(encode(fp8, WeightFormat::kBF16).view()) == fp8);
  }));
}

TEST(MatrixCodec, EncodingWhatWasDecodedChangesNothing) {
  EXPECT_TRUE(rc::check([](std::uint64_t seed) {
    for (const WeightFormat format :
         {WeightFormat::kBF16, WeightFormat::kFp8, WeightFormat::kFp8x32, WeightFormat::kFp4}) {
      const std::vector<float> once = decode(encode(random_values(seed, -6), format).view());
      RC_ASSERT(decode(encode(once, format).view()) == once);
    }
  }));
}

TEST(MatrixCodec, RoundingStaysWithinHalfAStep) {
  EXPECT_TRUE(rc::check([](std::uint64_t seed) {
    const std::vector<float> values = random_values(seed, *rc::gen::inRange(-10, 10));
    const EncodedMatrix fp8 = encode(values, WeightFormat::kFp8);
    const EncodedMatrix fp4 = encode(values, WeightFormat::kFp4);
    const std::vector<float> from8 = decode(fp8.view()), from4 = decode(fp4.view());
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::size_t row = i / kCols, col = i % kCols;
      const float scale8 =
          e8m0_to_float(static_cast<std::uint8_t>(fp8.scale[row / 128 * (kCols / 128) + col / 128]));
      const float scale4 = e8m0_to_float(static_cast<std::uint8_t>(fp4.scale[row * (kCols / 32) + col / 32]));
      RC_ASSERT(std::fabs(from8[i] - values[i]) <= std::fmax(std::fabs(values[i]) / 16, scale8 * 0x1p-10F));
      RC_ASSERT(std::fabs(from4[i] - values[i]) <= scale4 * 1.0F);  // the largest step, from 4 to 6, is 2
    }
  }));
}

/// Each block of 32 x 32 has the scale of its own largest value, also where the last block has fewer rows.
TEST(MatrixCodec, SmallBlocksHaveTheirOwnScales) {
  constexpr std::int64_t kFewRows = 44, kFewCols = 128;
  std::vector<float> values(kFewRows * kFewCols, 0.0F);
  const auto at = [&](std::int64_t row, std::int64_t col) -> float& {
    return values[static_cast<std::size_t>(row * kFewCols + col)];
  };
  at(31, 31) = 448.0F;     // of block (0, 0): scale 1
  at(0, 32) = -449.0F;     // (0, 1): 2
  at(43, 127) = 0x1p-20F;  // (1, 3), which has twelve rows: the least, 2^-22
  at(32, 0) = 3.0F;        // (1, 0): 2^-7
  at(33, 1) = 0x1p-16F;    // its smallest code
  EncodedMatrix matrix;
  matrix.reset(kFewRows, kFewCols, WeightFormat::kFp8x32);
  encode_panel(matrix, 0, values);
  const std::vector<int> exponents{0, 1, -22, -22, -7, -22, -22, -22};
  ASSERT_EQ(matrix.scale.size(), exponents.size());
  for (std::size_t i = 0; i < exponents.size(); ++i)
    EXPECT_EQ(std::to_integer<int>(matrix.scale[i]) - 127, exponents[i]) << i;
  std::vector<float> after(values.size());
  decode_panel(matrix.view(), 0, after);
  at(0, 32) = -448.0F;  // 224.5 halves are nearest to 224
  EXPECT_EQ(after, values);
}

TEST(MatrixCodec, F32ScalesMultiply) {
  EncodedMatrix fp8;
  fp8.reset(128, 128, WeightFormat::kFp8);
  std::fill(fp8.weight.begin(), fp8.weight.end(), std::byte{0x38});  // 1.0
  const float scale = 0.3F;
  StoredMatrix matrix = fp8.view();
  matrix.scale_dtype = DType::kF32;
  matrix.scale = std::as_bytes(std::span(&scale, 1));
  EXPECT_EQ(decode(matrix), std::vector<float>(128 * 128, 0.3F));
}

TEST(MatrixCodec, PackedFp4HasTheLowNibbleFirst) {
  std::vector<float> values(static_cast<std::size_t>(kRows * kCols), 0.0F);
  values[0] = 6.0F;
  values[1] = -1.5F;
  const EncodedMatrix fp4 = encode(values, WeightFormat::kFp4);
  EXPECT_EQ(fp4.weight[0], std::byte{0xB7});
  EXPECT_EQ(fp4.scale[0], std::byte{127});
}

}  // namespace
}  // namespace baleen
