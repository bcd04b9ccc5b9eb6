// Costs against the specification's formulas, written out once more.
#include <gtest/gtest.h>

#include "ops/embed/embed.h"
#include "tests/support/unread_arrays.h"

namespace baleen {
namespace {

TEST(EmbedCost, ReadsIdsAndRowsAndWritesEveryStream) {
  constexpr std::int64_t kRows = 3, kWidth = 4096;
  const EmbedArgs args{.tokens = test::unread_span<const TokenId>(kRows),
                       .table = {test::nowhere<const Bf16Bits>(), {129280, kWidth}},
                       .out = test::unread_bf16<3>({kRows, 4, kWidth})};
  const OpCost cost = embed_cost(args);
  EXPECT_EQ(cost.total_bytes(), (4 + 2 * kWidth + 8 * kWidth) * kRows);
  EXPECT_EQ(cost.total_flops(), 0);
  EXPECT_EQ(cost.weight_bytes, 0);  // looked up, not read whole
}

}  // namespace
}  // namespace baleen
