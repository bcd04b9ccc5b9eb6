// Costs against the specification's formulas, written out once more.
#include <gtest/gtest.h>

#include "ops/mtp_combine/mtp_combine.h"
#include "tests/support/unread_arrays.h"

namespace baleen {
namespace {

TEST(MtpCombineCost, AddsTheEmbeddingToEveryStream) {
  const OpCost cost = mtp_combine_cost(
      {.embedded = test::unread_bf16<2>({3, 4096}), .streams = test::unread_bf16<3>({3, 4, 4096})});
  EXPECT_EQ(cost.scalar_ops, 3 * 4 * 4096);
  EXPECT_EQ(cost.total_bytes(), 2 * 3 * (4096 + 2 * 4 * 4096));
}

}  // namespace
}  // namespace baleen
