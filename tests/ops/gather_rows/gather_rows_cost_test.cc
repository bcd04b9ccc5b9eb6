// Costs against the specification's formulas, written out once more.
#include <gtest/gtest.h>

#include "ops/gather_rows/gather_rows.h"
#include "tests/support/unread_arrays.h"

namespace baleen {
namespace {

TEST(GatherRowsCost, ReadsAndWritesEveryPairsRow) {
  const OpCost cost = gather_rows_cost({.from = test::unread_bf16<2>({100, 16384}),
                                        .pairs = test::unread_span<const RowPair>(3),
                                        .to = test::unread_bf16<2>({8, 16384})});
  EXPECT_EQ(cost.total_bytes(), 2 * 3 * 2 * 16384);
  EXPECT_EQ(cost.total_flops(), 0);
}

}  // namespace
}  // namespace baleen
