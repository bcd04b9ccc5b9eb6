// Costs against the specification's formulas, written out once more.
#include <gtest/gtest.h>

#include "ops/linear/linear.h"
#include "tests/support/unread_arrays.h"

namespace baleen {
namespace {

constexpr std::int64_t kRows = 3, kIn = 4096;
constexpr auto kFp8 = static_cast<std::size_t>(MathFormat::kFp8);
constexpr auto kBf16 = static_cast<std::size_t>(MathFormat::kBF16);

TEST(LinearCost, Fp8WeightsWithAByteOfScalePerBlock) {
  constexpr std::int64_t kOut = 1000;
  const WeightMatrix weight = test::unread_weight(WeightFormat::kFp8, kOut, kIn);
  const LinearOutput output{&weight, test::unread_bf16<2>({kRows, kOut})};
  const OpCost cost = linear_cost({.x = test::unread_bf16<2>({kRows, kIn}), .outputs = {&output, 1}});
  EXPECT_EQ(cost.flops[kFp8], 2 * kOut * kIn * kRows);
  EXPECT_EQ(cost.matrix_flops(), 2 * kOut * kIn * kRows);
  EXPECT_EQ(cost.scalar_ops, 4 * kIn * kRows);  // it quantises
  EXPECT_EQ(cost.weight_bytes, kOut * kIn + 8 * 32);
  EXPECT_EQ(cost.total_bytes(), 2 * kIn * kRows + kOut * kIn + 8 * 32 + 2 * kOut * kRows);
}

TEST(LinearCost, Fp4WeightsRunAtTheRateOfFp8) {
  constexpr std::int64_t kOut = 2048;
  const WeightMatrix weight = test::unread_weight(WeightFormat::kFp4, kOut, kIn);
  const LinearOutput output{&weight, test::unread_bf16<2>({kRows, kOut})};
  LinearArgs args{.x = test::unread_bf16<2>({kRows, kIn}), .outputs = {&output, 1}};
  EXPECT_EQ(linear_cost(args).flops[kFp8], 2 * kOut * kIn * kRows);
  EXPECT_EQ(linear_cost(args).weight_bytes, kOut * kIn / 2 + kOut * kIn / 32);
  // Without rounding the weights act as the BF16 values they are.
  args.precision = Precision::kBf16;
  EXPECT_EQ(linear_cost(args).flops[kBf16], 2 * kOut * kIn * kRows);
  EXPECT_EQ(linear_cost(args).scalar_ops, 0);
}

TEST(LinearCost, SeveralOutputsReadXOnce) {
  const WeightMatrix packed = test::unread_weight(WeightFormat::kFp8, 512, kIn);
  const WeightMatrix plain = test::unread_weight(WeightFormat::kBF16, 1024, kIn);
  const std::array<LinearOutput, 3> outputs{{{&packed, test::unread_bf16<2>({kRows, 512})},
                                             {&packed, test::unread_bf16<2>({kRows, 512})},
                                             {&plain, test::unread_f32<2>({kRows, 1024}), true}}};
  LinearArgs args{.x = test::unread_bf16<2>({kRows, kIn}), .outputs = outputs};
  const double weights = 2 * (512 * kIn + 4 * 32) + 2 * 1024 * kIn;
  const double written = 2 * (2 * 512 * kRows) + 4 * 1024 * kRows;
  const OpCost cost = linear_cost(args);
  EXPECT_EQ(cost.total_bytes(), 2 * kIn * kRows + weights + written);
  EXPECT_EQ(cost.scalar_ops, 4 * kIn * kRows);
  EXPECT_EQ(cost.flops[kBf16], 2 * 1024 * kIn * kRows);
  // Rows that are rounded already: read beside x, which the third product wants, and nothing is rounded here.
  args.x_fp8 = test::unread_fp8_rows();
  const OpCost rounded = linear_cost(args);
  EXPECT_EQ(rounded.read_bytes, cost.read_bytes + (kIn + kIn / 128) * kRows);
  EXPECT_EQ(rounded.scalar_ops, 0);
  // And instead of x where all products are FP8.
  args.outputs = std::span(outputs).first(2);
  EXPECT_EQ(linear_cost(args).read_bytes, 2 * (512 * kIn + 4 * 32) + (kIn + kIn / 128) * kRows);
}

TEST(LinearCost, OfNoRowsIsNothing) {
  const WeightMatrix weight = test::unread_weight(WeightFormat::kBF16, 512, kIn);
  const LinearOutput output{&weight, test::unread_bf16<2>({0, 512})};
  EXPECT_EQ(linear_cost({.x = test::unread_bf16<2>({0, kIn}), .outputs = {&output, 1}}).total_bytes(), 0);
}

}  // namespace
}  // namespace baleen
