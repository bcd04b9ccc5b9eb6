// Costs against the specification's formulas, written out once more.
#include <gtest/gtest.h>

#include "ops/route/route.h"
#include "tests/support/unread_arrays.h"

namespace baleen {
namespace {

constexpr std::int64_t kRows = 5, kExperts = 256, kSelected = 6;

RouteArgs router() {
  return {.logits = test::unread_f32<2>({kRows, kExperts}),
          .bias = test::unread_span<const float>(kExperts),
          .ids = {test::nowhere<std::int32_t>(), {kRows, kSelected}},
          .weights = test::unread_f32<2>({kRows, kSelected})};
}

// The product with the gate is a linear of its own; its float32 logits come on top of the specification's
// bytes.
TEST(RouteCost, ByScore) {
  const OpCost cost = route_cost(router());
  EXPECT_EQ(cost.scalar_ops, (6 * kExperts + 4 * kSelected) * kRows);
  EXPECT_EQ(cost.total_bytes(), 4 * kExperts * kRows + 4 * kExperts + 8 * kSelected * kRows);
  EXPECT_EQ(cost.weight_bytes, 4 * kExperts);
}

TEST(RouteCost, ByTable) {
  RouteArgs args = router();
  args.bias = {};
  args.hash_table = {test::nowhere<const std::int32_t>(), {129280, kSelected}};
  args.tokens = test::unread_span<const TokenId>(kRows);
  const OpCost cost = route_cost(args);
  EXPECT_EQ(cost.scalar_ops, (4 * kExperts + 4 * kSelected) * kRows);
  EXPECT_EQ(cost.total_bytes(), 4 * kExperts * kRows + (4 * kSelected + 4) * kRows + 8 * kSelected * kRows);
  EXPECT_EQ(cost.weight_bytes, 0);
}

}  // namespace
}  // namespace baleen
