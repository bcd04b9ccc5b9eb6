// Rows of a table: every code by hand-made scales, places of rows, vectors against the reference, the cost.
#include "ops/engram/engram_lookup.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include "numeric/bf16.h"
#include "numeric/e4m3.h"
#include "numeric/e8m0.h"
#include "tests/support/compare.h"
#include "tests/support/every_target.h"
#include "tests/support/test_cpu.h"
#include "tests/support/unread_arrays.h"

namespace baleen {
namespace {

class EngramLookup : public test::EveryTarget {};

/// Eight rows of all codes, each row in groups of 32 that have scales of their own.
TEST_P(EngramLookup, EveryCodeTimesItsRowsScale) {
  constexpr std::int64_t kRows = 8, kWidth = 256, kScales = 8;
  std::vector<std::uint8_t> codes(kRows * kWidth), scales;
  for (std::size_t i = 0; i < codes.size(); ++i) codes[i] = static_cast<std::uint8_t>(i);
  const std::uint8_t some[] = {127, 120, 1, 0, 140, 200, 254, 255};
  for (std::size_t row = 0; row < kRows; ++row)
    for (std::size_t group = 0; group < kScales; ++group) scales.push_back(some[(row + group) % 8]);
  const std::vector<std::int64_t> rows{7, 3, 3, 0, 1, 6};
  std::vector<float> z(rows.size() * kWidth), want;
  const EngramLookupArgs args{.rows = {rows.data(), {3, 2}},
                              .codes = {codes.data(), {kRows, kWidth}},
                              .scales = {scales.data(), {kRows, kScales}},
                              .z = {z.data(), {3, 2 * kWidth}}};
  for (const std::int64_t row : rows) {
    for (std::int64_t i = 0; i < kWidth; ++i) {
      const float scale = e8m0_to_float(scales[static_cast<std::size_t>(row * kScales + i / 32)]);
      want.push_back(round_bf16(e4m3_to_float(static_cast<std::uint8_t>(i)) * scale));
    }
  }
  test::TestCpu(1).run<ops::EngramLookup>(args);
  EXPECT_SAME_BITS(z, want);
  std::ranges::fill(z, 0.0F);
  engram_lookup_ref(args);
  EXPECT_SAME_BITS(z, want);
}

TEST_P(EngramLookup, RowsOfAnyWidthAndStrideEqualTheReference) {
  std::mt19937 random(1);
  for (const std::int64_t width : {1, 31, 32, 33, 100, 256}) {
    const std::int64_t num_scales = (width + 31) / 32, record = width + num_scales + 5;
    constexpr std::int64_t kTableRows = 40, kRows = 7, kHashes = 3;
    std::vector<std::uint8_t> records(static_cast<std::size_t>(kTableRows * record));
    for (std::uint8_t& byte : records) byte = static_cast<std::uint8_t>(random() % 255);
    std::vector<std::int64_t> rows(kRows * (kHashes + 2));
    for (std::int64_t& row : rows) row = static_cast<std::int64_t>(random() % kTableRows);
    const std::vector<float> before(static_cast<std::size_t>(kRows * (kHashes * width + 3)), 9.0F);
    std::vector<float> got = before, want = before;
    EngramLookupArgs args{.rows = {rows.data(), {kRows, kHashes}, {kHashes + 2, 1}},
                          .codes = {records.data(), {kTableRows, width}, {record, 1}},
                          .scales = {records.data() + width, {kTableRows, num_scales}, {record, 1}},
                          .z = {got.data(), {kRows, kHashes * width}, {kHashes * width + 3, 1}}};
    test::TestCpu(2).run<ops::EngramLookup>(args);
    args.z = {want.data(), {kRows, kHashes * width}, {kHashes * width + 3, 1}};
    engram_lookup_ref(args);
    EXPECT_SAME_BITS(got, want) << width << " wide";
    EXPECT_EQ(got.back(), 9.0F);
  }
}

INSTANTIATE_TEST_SUITE_P(EveryTarget, EngramLookup, testing::ValuesIn(test::compiled_targets()),
                         test::target_name);

TEST(EngramLookupCost, ARowIsItsCodesAndScales) {
  const std::vector<std::int64_t> rows(5 * 24);
  const std::vector<std::uint8_t> codes(256), scales(8);
  const OpCost cost = engram_lookup_cost({.rows = {rows.data(), {5, 24}},
                                          .codes = {codes.data(), {1, 256}},
                                          .scales = {scales.data(), {1, 8}},
                                          .z = test::unread_bf16<2>({5, 6144})});
  EXPECT_EQ(cost.read_bytes, 5 * 24 * (8 + 256 + 8));
  EXPECT_EQ(cost.write_bytes, 5 * 6144 * 2);
  EXPECT_EQ(cost.scalar_ops, 5 * 6144 * 2);
}

}  // namespace
}  // namespace baleen
