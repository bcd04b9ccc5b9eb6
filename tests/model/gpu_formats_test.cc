// Dense matrices that GPUs' kernels do not take, in FP8: exactly where they were made from it, and with
// what is lost said where not.
#include "model/gpu_formats.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "base/error.h"
#include "model/weights.h"
#include "model_files/convert.h"
#include "numeric/e4m3.h"
#include "tests/support/random_checkpoint.h"

namespace baleen {
namespace {

float fp8_value(const WeightMatrix& matrix, std::int64_t row, std::int64_t col) {
  const auto code = static_cast<std::uint8_t>(matrix.data[row * matrix.cols + col]);
  return e4m3_to_float(code) * matrix.block_scales[row / 128 * ((matrix.cols + 127) / 128) + col / 128];
}

class GpuFormatsTest : public testing::Test {
 protected:
  [[nodiscard]] std::filesystem::path converted(const ConvertOptions& options) {
    convert_checkpoint(released_.path(), folder_ / "out", options, pool_);
    return folder_ / "out";
  }

  const test::RandomCheckpoint released_{"tiny-flash"};
  const test::TemporaryFolder folder_;
  ThreadPool pool_{2};
};

TEST_F(GpuFormatsTest, WhatKernelsTakeStaysWhereItIs) {
  const ModelWeights weights(released_.path());
  const GpuFormats formats(weights.tree(), pool_);
  EXPECT_EQ(formats.text(), "");
  EXPECT_EQ(formats.tree().block(1).moe.shared.w1.data, weights.tree().block(1).moe.shared.w1.data);
}

TEST_F(GpuFormatsTest, Nvfp4ExpertsStayWhereTheyAre) {
  const ModelWeights weights(converted({.experts = WeightFormat::kNvfp4}));
  const GpuFormats formats(weights.tree(), pool_);
  EXPECT_EQ(formats.text(), "");
  const WeightMatrix &found = formats.tree().block(1).moe.routed[0].w1,
                     &stored = weights.tree().block(1).moe.routed[0].w1;
  EXPECT_EQ(found.format, WeightFormat::kNvfp4);
  EXPECT_EQ(found.data, stored.data);
  EXPECT_EQ(found.matrix_scale, stored.matrix_scale);
}

TEST_F(GpuFormatsTest, SharedExpertsInBf16ComeBackToFp8Exactly) {
  const ModelWeights released(released_.path()), bf16(converted({.dense = WeightFormat::kBF16}));
  ASSERT_EQ(bf16.tree().block(1).moe.shared.w2.format, WeightFormat::kBF16);
  const GpuFormats formats(bf16.tree(), pool_);
  EXPECT_NE(formats.text().find("dense matrices are brought to FP8 for the GPU, exactly"), std::string::npos)
      << formats.text();
  const WeightMatrix &want = released.tree().block(1).moe.shared.w2,
                     &found = formats.tree().block(1).moe.shared.w2;
  ASSERT_EQ(found.format, WeightFormat::kFp8);
  ASSERT_EQ(found.rows, want.rows);
  for (std::int64_t row = 0; row < want.rows; ++row)
    for (std::int64_t col = 0; col < want.cols; ++col)
      ASSERT_EQ(fp8_value(found, row, col), fp8_value(want, row, col)) << row << ", " << col;
  // Linear layers take BF16.
  EXPECT_EQ(formats.tree().block(1).attention.wq_a.format, WeightFormat::kBF16);
}

TEST_F(GpuFormatsTest, IntegersWithScalesAreRounded) {
  const ModelWeights weights(released_.path());
  WeightTree tree = weights.tree();
  WeightMatrix& matrix = tree.blocks[1].attention.wq_a;
  std::vector<std::byte> codes(static_cast<std::size_t>(matrix.rows * matrix.cols));
  for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<std::byte>(i * 37 % 255 - 127);
  const std::vector<float> scales(codes.size() / 32, 0.00123F);
  matrix = {.format = WeightFormat::kQ8,
            .rows = matrix.rows,
            .cols = matrix.cols,
            .data = codes.data(),
            .block_scales = scales.data()};
  const GpuFormats formats(tree, pool_);
  EXPECT_NE(
      formats.text().find("1 dense matrices are brought to FP8 for the GPU, 0 of them exactly: mean change "),
      std::string::npos)
      << formats.text();
  const WeightMatrix& found = formats.tree().block(1).attention.wq_a;
  for (std::size_t i = 0; i < codes.size(); ++i) {
    const float value = static_cast<float>(static_cast<std::int8_t>(codes[i])) * 0.00123F;
    // Half of the last of three bits behind the leading one; the smallest have fewer.
    ASSERT_NEAR(fp8_value(found, static_cast<std::int64_t>(i) / matrix.cols,
                          static_cast<std::int64_t>(i) % matrix.cols),
                value, std::fabs(value) / 16 + 1e-5F)
        << i;
  }
}

TEST_F(GpuFormatsTest, RoutedExpertsInOtherFormatsAreRefused) {
  const ModelWeights weights(released_.path());
  WeightTree tree = weights.tree();
  for (ExpertWeights& expert : tree.blocks[0].moe.routed) expert.w1.format = WeightFormat::kF32;
  try {
    const GpuFormats formats(tree, pool_);
    ADD_FAILURE() << formats.text();
  } catch (const Error& error) {
    EXPECT_NE(
        std::string(error.what()).find("routed experts in f32, which GPUs do not compute; ‹device› cpu does"),
        std::string::npos)
        << error.what();
  }
}

/// Kernels for activations in groups of 32 take experts in FP4 and FP8 with a shared one in FP8, or all in
/// BF16.
TEST_F(GpuFormatsTest, OfV41WhatKernelsDoNotTakeIsRefused) {
  const test::RandomCheckpoint v41{"tiny-v41"};
  const auto refusal = [&](const ConvertOptions& options) -> std::string {
    const test::TemporaryFolder folder;
    convert_checkpoint(v41.path(), folder / "out", options, pool_);
    const ModelWeights weights(folder / "out");
    try {
      const GpuFormats formats(weights.tree(), pool_);
      EXPECT_EQ(formats.text(), "");
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refusal({}), "");
  EXPECT_EQ(refusal({.experts = WeightFormat::kFp8}), "");
  EXPECT_EQ(refusal({.experts = WeightFormat::kBF16, .dense = WeightFormat::kBF16}), "");
  const std::string nvfp4 = refusal({.experts = WeightFormat::kNvfp4});
  EXPECT_NE(nvfp4.find("routed experts in nvfp4, which GPUs do not compute of DeepSeek-V4.1; ‹device› cpu "
                       "does, and `baleen convert IN OUT`, to FP4 or to FP8, writes"),
            std::string::npos)
      << nvfp4;
  const std::string shared = refusal({.dense = WeightFormat::kBF16});
  EXPECT_NE(shared.find("shared_experts.w1: bf16 beside experts in codes, which GPUs do not compute of "
                        "DeepSeek-V4.1"),
            std::string::npos)
      << shared;
}

}  // namespace
}  // namespace baleen
