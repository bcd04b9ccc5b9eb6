// Costs against the specification's formulas, written out once more.
#include <gtest/gtest.h>

#include "ops/sample/sample.h"
#include "tests/support/unread_arrays.h"

namespace baleen {
namespace {

TEST(SampleCost, ReadsTheLogitsOnce) {
  const OpCost cost = sample_cost({.logits = test::unread_f32<2>({3, 129280})});
  EXPECT_EQ(cost.scalar_ops, 3.0 * 129280 * 3);
  EXPECT_EQ(cost.total_bytes(), 4.0 * 129280 * 3);
}

}  // namespace
}  // namespace baleen
