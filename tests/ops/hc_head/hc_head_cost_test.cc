// Costs against the specification's formulas, written out once more.
#include <gtest/gtest.h>

#include "ops/hc_head/hc_head.h"
#include "tests/support/unread_arrays.h"

namespace baleen {
namespace {

TEST(HcHeadCost, CountsProductsAndTheSum) {
  constexpr std::int64_t kRows = 3, kWidth = 4096;
  const OpCost cost = hc_head_cost({.streams = test::unread_bf16<3>({kRows, 4, kWidth}),
                                    .weights = {{test::nowhere<const float>(), {4, 4 * kWidth}},
                                                test::unread_span<const float>(4),
                                                test::unread_span<const float>(1)},
                                    .y = test::unread_bf16<2>({kRows, kWidth})});
  EXPECT_EQ(cost.flops[static_cast<std::size_t>(MathFormat::kF32)], 32 * kWidth * kRows);
  EXPECT_EQ(cost.scalar_ops, 16 * kWidth * kRows);
  EXPECT_EQ(cost.total_bytes(), 8 * kWidth * kRows + 64 * kWidth + 20 + 2 * kWidth * kRows);
}

}  // namespace
}  // namespace baleen
