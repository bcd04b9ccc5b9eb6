// Costs against the specification's formulas, written out once more.
#include <gtest/gtest.h>

#include "ops/grouped_linear/grouped_linear.h"
#include "tests/support/unread_arrays.h"

namespace baleen {
namespace {

constexpr std::int64_t kRows = 3, kGroups = 8;

OpCost cost_of(WeightFormat format) {
  const WeightMatrix weight = test::unread_weight(format, kGroups * 1024, 4096);
  return grouped_linear_cost({.x = test::unread_bf16<3>({kRows, kGroups, 4096}),
                              .weight = &weight,
                              .y = test::unread_bf16<2>({kRows, kGroups * 1024})});
}

TEST(GroupedLinearCost, EveryGroupMeetsItsOwnMatrix) {
  const OpCost cost = cost_of(WeightFormat::kBF16);
  EXPECT_EQ(cost.flops[static_cast<std::size_t>(MathFormat::kBF16)], 8'388'608.0 * kGroups * kRows);
  EXPECT_EQ(cost.total_bytes(),
            8192 * kGroups * kRows + 2.0 * (1024 * kGroups) * 4096 + 2048 * kGroups * kRows);
}

TEST(GroupedLinearCost, Fp8WeightsAreFewerBytesAndBf16Products) {
  const OpCost cost = cost_of(WeightFormat::kFp8);
  EXPECT_EQ(cost.flops[static_cast<std::size_t>(MathFormat::kBF16)], 8'388'608.0 * kGroups * kRows);
  EXPECT_EQ(cost.weight_bytes, 1024.0 * kGroups * 4096 + 8 * kGroups * 32);
}

}  // namespace
}  // namespace baleen
