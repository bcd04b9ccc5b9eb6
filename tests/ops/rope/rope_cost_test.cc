// Costs against the specification's formulas, written out once more.
#include <gtest/gtest.h>

#include "ops/rope/rope.h"
#include "ops/rope/rope_angles.h"
#include "tests/support/unread_arrays.h"

namespace baleen {
namespace {

TEST(RopeCost, CountsTurnedValuesOnly) {
  constexpr std::int64_t kRows = 3, kHeads = 64;
  const OpCost cost = rope_cost({.x = test::unread_bf16<3>({kRows, kHeads, 512}),
                                 .cosine = test::unread_f32<2>({kRows, 32}),
                                 .sine = test::unread_f32<2>({kRows, 32})});
  EXPECT_EQ(cost.scalar_ops, 192 * kHeads * kRows);
  EXPECT_EQ(cost.total_bytes(), 2 * 2 * 64 * kHeads * kRows);
}

TEST(RopeAnglesCost, WritesACosineAndASineOfEachFrequency) {
  const test::UnreadBatch batch({{0, 5}});
  const OpCost cost =
      rope_angles_cost({.frequencies = test::unread_span<const float>(32), .batch = batch.batch()});
  EXPECT_EQ(cost.total_bytes(), 5 * 32 * 8);
  EXPECT_EQ(cost.scalar_ops, 5 * 32 * 3);
}

}  // namespace
}  // namespace baleen
