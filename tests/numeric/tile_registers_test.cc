// The emulation of AMX's tiles: by hand, and against the instructions where the machine has them.
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <random>
#include <vector>

#include "numeric/bf16.h"
#include "numeric/bf16_tiles.h"
#include "numeric/tile_registers.h"
#include "tests/support/emulated_tiles.h"

namespace baleen {
namespace {

using test::EmulatedTiles;

/// sums [16, columns], left [16, 32], right [16, columns, 2].
template <class Tiles>
std::vector<float> product(std::vector<float> sums, const std::vector<Bf16Bits>& left,
                           const std::vector<Bf16Bits>& right, int num_columns) {
  const std::int64_t stride = 4 * num_columns;
  Tiles::configure(tiles_of_products(static_cast<std::uint16_t>(stride)));
  Tiles::template load<0>(sums.data(), stride);
  Tiles::template load<5>(left.data(), 64);
  Tiles::template load<7>(right.data(), stride);
  Tiles::template add_products<0, 5, 7>();
  Tiles::template store<0>(sums.data(), stride);
  Tiles::release();
  return sums;
}

TEST(EmulatedTiles, EvenAndOddInputsAreChainsOfTheirOwn) {
  std::vector<float> sums(16, 0.0F);
  std::vector<Bf16Bits> left(16 * 32, 0), right(16 * 2, 0);
  const auto one = float_to_bf16(1.0F);
  for (int k = 0; k < 32; ++k) right[static_cast<std::size_t>(k)] = one;
  // Row 3: 2^24 + 1 - 2^24 is 0 in one chain and 1 where the 1 is in the other.
  const auto set = [&](int row, int k, float value) {
    left[static_cast<std::size_t>(row * 32 + k)] = float_to_bf16(value);
  };
  set(3, 0, 0x1p24F);
  set(3, 2, 1.0F);
  set(3, 4, -0x1p24F);
  set(4, 0, 0x1p24F);
  set(4, 1, 1.0F);
  set(4, 2, -0x1p24F);
  sums[4] = 5.0F;
  const auto got = product<EmulatedTiles>(sums, left, right, 1);
  EXPECT_EQ(got[3], 0.0F);
  EXPECT_EQ(got[4], 6.0F);
  EXPECT_EQ(got[5], 0.0F);
}

TEST(EmulatedTiles, SubnormalsCountAsZero) {
  std::vector<float> sums(16, 0x1p-130F);
  std::vector<Bf16Bits> left(16 * 32, 0), right(16 * 2, 0);
  left[0] = float_to_bf16(0x1p-130F);  // an operand
  right[0] = float_to_bf16(0x1p100F);
  left[32] = float_to_bf16(0x1p-70F);  // a result
  right[1] = float_to_bf16(0x1p-70F);
  left[33] = float_to_bf16(0x1p-70F);
  for (const float sum : product<EmulatedTiles>(sums, left, right, 1))
    EXPECT_NE(std::fpclassify(sum), FP_SUBNORMAL);
  EXPECT_EQ(product<EmulatedTiles>(sums, left, right, 1)[0], 0.0F);
}

TEST(TileRegisters, AreWhatTheEmulationSays) {
  if (!machine_has_bf16_tiles()) GTEST_SKIP() << "no AMX";
#if defined(__x86_64__)
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    const int num_columns = std::array{1, 4, 8, 16}[static_cast<std::size_t>(round % 4)];
    // Any bits; or exponents near each other, so that roundings and cancellations show.
    const bool any_bits = round % 8 >= 6;
    const auto value = [&] {
      const auto bits = static_cast<Bf16Bits>(random());
      if (any_bits) return bits;
      const auto exponent = 120 + static_cast<unsigned>(random() % (round % 3 == 0 ? 4 : 16));
      return static_cast<Bf16Bits>((bits & 0x807FU) | exponent << 7);
    };
    std::vector<float> sums;
    std::vector<Bf16Bits> left, right;
    for (int i = 0; i < 16 * num_columns; ++i) sums.push_back(bf16_to_float(value()) * (1.0F + 0x1p-20F));
    for (int i = 0; i < 16 * 32; ++i) left.push_back(value());
    for (int i = 0; i < 32 * num_columns; ++i) right.push_back(value());
    const auto got = product<TileRegisters>(sums, left, right, num_columns);
    const auto want = product<EmulatedTiles>(sums, left, right, num_columns);
    for (std::size_t i = 0; i < got.size(); ++i) {
      if (std::isnan(want[i])) {
        ASSERT_TRUE(std::isnan(got[i])) << "round " << round << ", sum " << i << ": " << got[i];
      } else {
        ASSERT_EQ(std::bit_cast<std::uint32_t>(got[i]), std::bit_cast<std::uint32_t>(want[i]))
            << "round " << round << ", sum " << i << ": " << got[i] << ", not " << want[i];
      }
    }
  }
#endif
}

}  // namespace
}  // namespace baleen
