#include "sampling/philox.h"

#include <gtest/gtest.h>

#include <cmath>

namespace baleen {
namespace {

using Block = std::array<std::uint32_t, 4>;

// The known answers of the generator's authors (Random123, kat_vectors, "philox4x32 10").
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}), (Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}),
            (Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, DrawsStayBelowOneAndAverageToAHalf) {
  constexpr int kNumDraws = 100000;
  double sum = 0;
  for (int i = 0; i < kNumDraws; ++i) {
    const double draw = uniform_draw(7, static_cast<std::uint64_t>(i));
    ASSERT_GE(draw, 0.0);
    ASSERT_LT(draw, 1.0);
    sum += draw;
  }
  // Five standard deviations of the mean of that many uniform draws.
  EXPECT_NEAR(sum / kNumDraws, 0.5, 5 / std::sqrt(12.0 * kNumDraws));
}

TEST(Philox, HighBitsOfSeedAndIndexMatter) {
  EXPECT_NE(uniform_draw(1, 0), uniform_draw(1 | std::uint64_t{1} << 40, 0));
  EXPECT_NE(uniform_draw(1, 0), uniform_draw(1, std::uint64_t{1} << 40));
  EXPECT_NE(uniform_draw(1, 0), uniform_draw(0, 1));
}

}  // namespace
}  // namespace baleen
