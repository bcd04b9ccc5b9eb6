// Rows with a scale for every group: sizes, values by hand, groups of zeros, saturation, and that what was
// read back is written as the same bytes.
#include "numeric/grouped_row.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "numeric/bf16.h"

namespace baleen {
namespace {

constexpr GroupedRow kWindow{.codes = GroupedCodes::kFp8, .width = 512};
constexpr GroupedRow kEntry{.codes = GroupedCodes::kFp4, .width = 512};

std::vector<std::byte> encoded(const GroupedRow& format, const std::vector<float>& values) {
  std::vector<std::byte> row(static_cast<std::size_t>(format.row_bytes()), std::byte{0xEE});
  encode_grouped_row(format, values, row);
  return row;
}

std::vector<float> decoded(const GroupedRow& format, const std::vector<std::byte>& row) {
  std::vector<float> values(static_cast<std::size_t>(format.width));
  decode_grouped_row(format, row, values);
  return values;
}

TEST(GroupedRow, Sizes) {
  EXPECT_EQ(kWindow.row_bytes(), 528);
  EXPECT_EQ(kEntry.row_bytes(), 288);
}

TEST(GroupedRow, EntriesByHand) {
  constexpr GroupedRow kTwoGroups{.codes = GroupedCodes::kFp4, .width = 32};
  std::vector<float> values(32, 0.0F);
  values[0] = 12;    // largest of the first group: scale 2, code 6
  values[1] = -3;    // -1.5
  values[2] = 0.5F;  // 0.25, a tie that goes to 0, the even code
  values[3] = 1.5F;  // 0.75, a tie that goes to 1
  values[16] =
      7;  // 7 / 6 = 1.1667 is no E4M3 number: the scale is 1.125, the code 7 / 1.125 = 6.2, which is 6
  const std::vector<std::byte> row = encoded(kTwoGroups, values);
  EXPECT_EQ(row[0], std::byte{0xB7});  // low nibble first: 6 is 7, -1.5 is 11
  EXPECT_EQ(row[1], std::byte{0x20});
  EXPECT_EQ(row[16], std::byte{0x40});  // e4m3 of 2
  EXPECT_EQ(row[17], std::byte{0x39});  // e4m3 of 1.125
  const std::vector<float> back = decoded(kTwoGroups, row);
  EXPECT_EQ(back[0], 12);
  EXPECT_EQ(back[1], -3);
  EXPECT_EQ(back[2], 0);
  EXPECT_EQ(back[3], 2);
  EXPECT_EQ(back[16], 6.75F);
}

TEST(GroupedRow, WindowRowsByHand) {
  constexpr GroupedRow kOneGroup{.codes = GroupedCodes::kFp8, .width = 32};
  std::vector<float> values(32, 0.0F);
  values[0] = 449;  // above 448: the scale is 2, not 1
  values[31] = -1;
  const std::vector<std::byte> row = encoded(kOneGroup, values);
  EXPECT_EQ(row[32], std::byte{128});
  EXPECT_EQ(decoded(kOneGroup, row)[0], 448);
  EXPECT_EQ(decoded(kOneGroup, row)[31], -1);
}

TEST(GroupedRow, ZerosAndTheSmallestScales) {
  for (const GroupedRow& format : {kWindow, kEntry}) {
    const std::vector<float> zeros(512, 0.0F);
    EXPECT_EQ(decoded(format, encoded(format, zeros)), zeros);
    // Far below what the smallest scale resolves.
    EXPECT_EQ(decoded(format, encoded(format, std::vector<float>(512, 1e-12F))), zeros);
  }
  // max(0, 6 * 2^-9) / 6 is the smallest E4M3 number; max(0, 1e-4) / 448 rounds up to 2^-22.
  EXPECT_EQ(encoded(kEntry, std::vector<float>(512, 0.0F))[256], std::byte{1});
  EXPECT_EQ(encoded(kWindow, std::vector<float>(512, 0.0F))[512], std::byte{127 - 22});
}

/// The scale of entries ends at 448: what is beyond 6 times that saturates.
TEST(GroupedRow, EntriesSaturate) {
  std::vector<float> values(512, 0.0F);
  values[5] = -1e6F;
  const std::vector<float> back = decoded(kEntry, encoded(kEntry, values));
  EXPECT_EQ(back[5], -6 * 448.0F);
}

TEST(GroupedRow, WhatIsNoNumberStaysInItsGroup) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const GroupedRow& format : {kWindow, kEntry}) {
    std::vector<float> values(512, 1.0F);
    values[70] = std::nanf("");
    values[200] = -kInfinity;
    const std::vector<float> back = decoded(format, encoded(format, values));
    EXPECT_TRUE(std::isnan(back[70]));
    EXPECT_LT(back[200], -2000.0F);
    EXPECT_TRUE(std::isfinite(back[200]));
    for (const std::size_t i : {0, 63, 96, 160, 511}) EXPECT_NEAR(back[i], 1.0, 1.0 / 32) << i;
  }
}

TEST(GroupedRow, WhatIsReadIsNearAndExactInBf16) {
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  for (const GroupedRow& format : {kWindow, kEntry}) {
    // Half a step of the coarsest codes: e4m3 has 3 bits behind the leading one, e2m1 a largest step of 2 in
    // 6, of a scale that is a power of two up to twice too large, or an E4M3 number up to 1/16 off:
    // magnitudes are such that it is no subnormal one.
    const float step = format.codes == GroupedCodes::kFp8 ? 1.0F / 16 : 1.2F / 6;
    for (const float magnitude : {0.2F, 1.0F, 30.0F}) {
      std::vector<float> values(512);
      for (float& value : values) value = magnitude * normal(random);
      const std::vector<float> back = decoded(format, encoded(format, values));
      for (std::size_t i = 0; i < values.size(); ++i) {
        const std::size_t begin =
            i / static_cast<std::size_t>(format.group()) * static_cast<std::size_t>(format.group());
        float amax = 0;
        for (std::size_t k = begin; k < begin + static_cast<std::size_t>(format.group()); ++k)
          amax = std::fmax(amax, std::fabs(values[k]));
        ASSERT_LE(std::fabs(back[i] - values[i]), step * amax) << i;
        ASSERT_EQ(round_bf16(back[i]), back[i]) << i;
      }
    }
  }
}

}  // namespace
}  // namespace baleen
