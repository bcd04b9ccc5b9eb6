// Costs against the specification's formulas, written out once more.
#include <gtest/gtest.h>

#include "ops/rms_norm/rms_norm.h"
#include "tests/support/unread_arrays.h"

namespace baleen {
namespace {

constexpr std::int64_t kRows = 3, kWidth = 4096;

TEST(RmsNormCost, MovesEveryValueTwiceAndTheWeightOnce) {
  const RmsNormArgs args{.x = test::unread_bf16<2>({kRows, kWidth}),
                         .weight = test::unread_span<const float>(kWidth),
                         .y = test::unread_bf16<2>({kRows, kWidth})};
  EXPECT_EQ(rms_norm_cost(args).scalar_ops, 4 * kWidth * kRows);
  EXPECT_EQ(rms_norm_cost(args).total_bytes(), 4 * kWidth * kRows + 2 * kWidth);
  EXPECT_EQ(rms_norm_cost(args).weight_bytes, 2 * kWidth);
}

TEST(RmsNormCost, Fp8RowsAreAnOutputMore) {
  RmsNormArgs args{.x = test::unread_bf16<2>({kRows, kWidth}),
                   .weight = test::unread_span<const float>(kWidth),
                   .y = test::unread_bf16<2>({kRows, kWidth})};
  const OpCost plain = rms_norm_cost(args);
  args.y_fp8 = test::unread_fp8_rows();
  EXPECT_EQ(rms_norm_cost(args).write_bytes, plain.write_bytes + (kWidth + kWidth / 128) * kRows);
  EXPECT_EQ(rms_norm_cost(args).scalar_ops, plain.scalar_ops + 4 * kWidth * kRows);
}

// Queries: the norm of a head of 512 and the rotation of its last 64 values, in one pass.
TEST(RmsNormCost, FusedWithRotationMovesHeadsOnce) {
  constexpr std::int64_t kHeads = 64;
  const RmsNormArgs norm{.x = test::unread_bf16<2>({kRows * kHeads, 512}),
                         .y = test::unread_bf16<2>({kRows * kHeads, 512})};
  const RopeArgs turn{.x = test::unread_bf16<3>({kRows, kHeads, 512}),
                      .cosine = test::unread_f32<2>({kRows, 32}),
                      .sine = test::unread_f32<2>({kRows, 32})};
  const OpCost cost = rms_norm_rope_cost(norm, turn);
  EXPECT_EQ(cost.scalar_ops, (2048 + 192) * kHeads * kRows);
  EXPECT_EQ(cost.total_bytes(), 2048 * kHeads * kRows);
}

}  // namespace
}  // namespace baleen
