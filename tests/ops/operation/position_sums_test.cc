// The closed sums: the specification's figures, and loops over every position.
#include "ops/operation/position_sums.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>

#include "ops/operation/expected_distinct.h"

namespace baleen {
namespace {

TEST(PositionSums, OfTheSpecification) {
  EXPECT_EQ(sum_of_visible(12, 4), 15);
  // A prompt of 8192 tokens.
  EXPECT_EQ(sum_of_visible(8192, 4), 8'386'560);
  EXPECT_EQ(sum_of_selected(8192, 4, 512), 3'669'504);
  EXPECT_EQ(sum_of_visible(8192, 128), 258'112);
  EXPECT_EQ(sum_of_window(8192, 128), 1'040'448);
}

TEST(PositionSums, AMillionPositionsDoNotOverflow) {
  EXPECT_EQ(sum_of_visible(1 << 20, 1), (std::int64_t{1} << 19) * ((1 << 20) + 1));
}

TEST(PositionSums, EqualLoopsOverPositions) {
  EXPECT_TRUE(rc::check([] {
    const auto x = *rc::gen::inRange<std::int64_t>(0, 3000);
    const auto ratio = *rc::gen::element<std::int64_t>(1, 2, 4, 7, 128);
    const auto most = *rc::gen::inRange<std::int64_t>(1, 300);
    std::int64_t visible = 0, selected = 0, window = 0;
    for (std::int64_t count = 1; count <= x; ++count) {
      visible += count / ratio;
      selected += std::min(most, count / ratio);
      window += std::min(most, count);
    }
    RC_ASSERT(sum_of_visible(x, ratio) == visible);
    RC_ASSERT(sum_of_selected(x, ratio, most) == selected);
    RC_ASSERT(sum_of_window(x, most) == window);
  }));
}

TEST(ExpectedDistinct, Limits) {
  EXPECT_EQ(expected_distinct(256, 6, 0), 0);
  EXPECT_EQ(expected_distinct(256, 6, 1), 6);
  EXPECT_DOUBLE_EQ(expected_distinct(256, 6, 2), 6 + 6 * (1 - 6.0 / 256));
  EXPECT_DOUBLE_EQ(expected_distinct(256, 6, 1e6), 256);
  EXPECT_EQ(expected_distinct(100, 512, 1), 100);  // fewer are there than are wanted
  EXPECT_EQ(expected_distinct(0, 512, 3), 0);
}

}  // namespace
}  // namespace baleen
