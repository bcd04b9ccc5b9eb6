// Costs against the specification's formulas, written out once more.
#include <gtest/gtest.h>

#include "ops/hc_post/hc_post.h"
#include "tests/support/unread_arrays.h"

namespace baleen {
namespace {

constexpr std::int64_t kRows = 3, kWidth = 4096;

HcPostArgs exit_args() {
  return {.f = test::unread_bf16<2>({kRows, kWidth}),
          .post = test::unread_f32<2>({kRows, 4}),
          .comb = test::unread_f32<3>({kRows, 4, 4}),
          .streams = test::unread_bf16<3>({kRows, 4, kWidth})};
}

TEST(HcPostCost, ReadsAndWritesTheStreams) {
  const OpCost cost = hc_post_cost(exit_args());
  EXPECT_EQ(cost.scalar_ops, 36 * kWidth * kRows);
  EXPECT_EQ(cost.matrix_flops(), 0);
  EXPECT_EQ(cost.total_bytes(), (2 * kWidth + 80 + 16 * kWidth) * kRows);
}

TEST(HcPostCost, FusedWithTheNextEntryReadsTheStreamsOnce) {
  const HcPostArgs post = exit_args();
  const HcPreArgs pre{.streams = post.streams,
                      .weights = {{test::nowhere<const float>(), {24, 4 * kWidth}},
                                  test::unread_span<const float>(24),
                                  test::unread_span<const float>(3)},
                      .u = test::unread_bf16<2>({kRows, kWidth}),
                      .post = test::unread_f32<2>({kRows, 4}),
                      .comb = test::unread_f32<3>({kRows, 4, 4})};
  const RmsNormArgs norm{.x = pre.u, .weight = test::unread_span<const float>(kWidth), .y = pre.u};
  const OpCost fused = hc_post_pre_norm_cost(post, pre, norm);
  // f, streams in and out, the vector; post and comb in and out; the weights.
  EXPECT_EQ(fused.total_bytes(),
            (2 + 16 + 2) * kWidth * kRows + 2 * 80 * kRows + 384 * kWidth + 108 + 2 * kWidth);
  EXPECT_EQ(fused.scalar_ops, (36 + 16 + 4) * kWidth * kRows + 1443 * kRows);
}

}  // namespace
}  // namespace baleen
