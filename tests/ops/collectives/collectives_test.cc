// Collectives over threads against their references on arrays, and against small cases worked by hand.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "numeric/bf16.h"
#include "ops/collectives/all_gather.h"
#include "ops/collectives/all_reduce.h"
#include "ops/collectives/all_to_all.h"
#include "ops/collectives/send.h"
#include "tests/support/rank_threads.h"

namespace baleen {
namespace {

struct Array {
  std::vector<float> values;
  std::int64_t rows, cols;

  Array(std::int64_t num_rows, std::int64_t num_cols, float first = 0)
      : values(static_cast<std::size_t>(num_rows * num_cols)), rows(num_rows), cols(num_cols) {
    for (float& value : values) value = first = std::fmod(first * 1.37F + 0.71F, 8.0F);
  }
  Activations<2> view() { return {values.data(), {rows, cols}}; }
  bool operator==(const Array&) const = default;
};

std::vector<RankGroup> groups(std::int64_t size) {
  std::vector<RankGroup> all;
  for (std::int64_t rank = 0; rank < size; ++rank) all.push_back(RankGroup::strided(0, 1, size, rank));
  return all;
}

constexpr std::int64_t kRanks = 3;

TEST(Collectives, SumsAreInAscendingRankAndRoundedOnce) {
  // In float32 2^24 + 1 + 1 is 2^24 from the left, 2^24 + 2 from the right; BF16 has neither of the small
  // terms.
  for (const Precision precision : {Precision::kExact, Precision::kReleased}) {
    std::vector<Array> x(kRanks, Array(1, 1)), y(kRanks, Array(1, 1));
    x[0].values = {0x1p24F};
    x[1].values = x[2].values = {1.0F};
    const auto of = groups(kRanks);
    std::vector<AllReduceArgs> args;
    for (std::size_t r = 0; r < kRanks; ++r)
      args.push_back({.group = &of[r], .x = x[r].view(), .precision = precision, .y = y[r].view()});
    test::run_on_ranks<ops::AllReduce>(args);
    for (const Array& sum : y) EXPECT_EQ(sum.values.front(), 0x1p24F);
    std::swap(x[0], x[2]);
    for (std::size_t r = 0; r < kRanks; ++r) args[r].x = x[r].view();
    test::run_on_ranks<ops::AllReduce>(args);
    for (const Array& sum : y)
      EXPECT_EQ(sum.values.front(), precision == Precision::kExact ? 0x1p24F + 2 : 0x1p24F);
  }
}

TEST(Collectives, AllReduceIsItsReference) {
  const auto of = groups(kRanks);
  std::vector<Array> x, y(kRanks, Array(5, 7)), expected(kRanks, Array(5, 7));
  std::vector<AllReduceArgs> args, reference;
  for (std::size_t r = 0; r < kRanks; ++r) x.emplace_back(5, 7, static_cast<float>(r));
  for (std::size_t r = 0; r < kRanks; ++r) {
    args.push_back({.group = &of[r], .x = x[r].view(), .y = y[r].view()});
    reference.push_back({.group = &of[r], .x = x[r].view(), .y = expected[r].view()});
  }
  test::run_on_ranks<ops::AllReduce>(args);
  all_reduce_ref(reference);
  EXPECT_TRUE(y == expected);
  EXPECT_TRUE(y[0] == y[1] && y[1] == y[2]);
}

TEST(Collectives, ReduceScatterGivesEachItsRows) {
  const auto of = groups(kRanks);
  const std::vector<RowRange> rows{{0, 2}, {2, 4}, {4, 4}};  // the last rank has none
  std::vector<Array> x, y, sums(kRanks, Array(4, 3));
  std::vector<ReduceScatterArgs> args;
  std::vector<AllReduceArgs> reference;
  for (std::size_t r = 0; r < kRanks; ++r) {
    x.emplace_back(4, 3, static_cast<float>(r));
    y.emplace_back(rows[r].size(), 3);
  }
  for (std::size_t r = 0; r < kRanks; ++r) {
    args.push_back({.group = &of[r], .x = x[r].view(), .rows = rows, .y = y[r].view()});
    reference.push_back({.group = &of[r], .x = x[r].view(), .y = sums[r].view()});
  }
  test::run_on_ranks<ops::ReduceScatter>(args);
  all_reduce_ref(reference);
  std::vector<Array> again = y;
  for (std::size_t r = 0; r < kRanks; ++r) {
    const auto begin = sums[r].values.begin() + 3 * rows[r].begin;
    EXPECT_EQ(y[r].values, std::vector<float>(begin, begin + 3 * rows[r].size())) << r;
    args[r].y = again[r].view();
  }
  reduce_scatter_ref(args);
  EXPECT_TRUE(again == y);
}

TEST(Collectives, AllGatherOfRowsInPlace) {
  const auto of = groups(kRanks);
  const std::vector<RowRange> rows{{0, 2}, {2, 3}, {3, 5}};
  const Array whole(5, 2, 1);
  std::vector<Array> y;
  std::vector<AllGatherArgs> args;
  for (std::size_t r = 0; r < kRanks; ++r) {
    y.emplace_back(5, 2);
    std::ranges::fill(y.back().values, -1.0F);
    std::copy(whole.values.begin() + 2 * rows[r].begin, whole.values.begin() + 2 * rows[r].end,
              y.back().values.begin() + 2 * rows[r].begin);
  }
  for (std::size_t r = 0; r < kRanks; ++r) {
    args.push_back({.group = &of[r],
                    .x = y[r].view().slice(rows[r].begin, rows[r].end),
                    .rows = rows,
                    .y = y[r].view()});
  }
  test::run_on_ranks<ops::AllGather>(args);
  for (const Array& all : y) EXPECT_TRUE(all == whole);
}

TEST(Collectives, AllGatherOfColumnsWithAShortLastPart) {
  const auto of = groups(kRanks);
  std::vector<Array> x{Array(2, 3), Array(2, 3), Array(2, 1)}, y(kRanks, Array(2, 7)), expected = y;
  x[0].values = {0, 1, 2, 10, 11, 12};
  x[1].values = {3, 4, 5, 13, 14, 15};
  x[2].values = {6, 16};
  std::vector<AllGatherArgs> args, reference;
  for (std::size_t r = 0; r < kRanks; ++r) {
    args.push_back({.group = &of[r], .x = x[r].view(), .rows = {}, .y = y[r].view()});
    reference.push_back({.group = &of[r], .x = x[r].view(), .rows = {}, .y = expected[r].view()});
  }
  test::run_on_ranks<ops::AllGather>(args);
  all_gather_ref(reference);
  const std::vector<float> whole{0, 1, 2, 3, 4, 5, 6, 10, 11, 12, 13, 14, 15, 16};
  for (const Array& all : y) EXPECT_EQ(all.values, whole);
  EXPECT_TRUE(y == expected);
}

TEST(Collectives, AllToAllExchangesColumnsForRows) {
  const auto of = groups(2);
  std::vector<Array> x(2, Array(2, 4)), y(2, Array(4, 2)), expected = y;
  x[0].values = {0, 1, 2, 3, 10, 11, 12, 13};
  x[1].values = {20, 21, 22, 23, 30, 31, 32, 33};
  std::vector<AllToAllArgs> args, reference;
  for (std::size_t r = 0; r < 2; ++r) {
    args.push_back({.group = &of[r], .x = x[r].view(), .y = y[r].view()});
    reference.push_back({.group = &of[r], .x = x[r].view(), .y = expected[r].view()});
  }
  test::run_on_ranks<ops::AllToAll>(args);
  all_to_all_ref(reference);
  EXPECT_EQ(y[0].values, (std::vector<float>{0, 1, 10, 11, 20, 21, 30, 31}));
  EXPECT_EQ(y[1].values, (std::vector<float>{2, 3, 12, 13, 22, 23, 32, 33}));
  EXPECT_TRUE(y == expected);
}

TEST(Collectives, AReceiverHasWhatWasSent) {
  const auto of = groups(2);
  Array x(2, 6, 3), y(2, 6);
  LocalExchange exchange(std::chrono::seconds(60));
  LocalCommunicator communicator(exchange);
  {
    const std::jthread sender([&] {
      test::TestCpu cpu;
      cpu.context.communicator = &communicator;
      cpu.run<ops::Send>({.pair = &of[0], .x = x.view().reshaped<3>({2, 2, 3})});
    });
    test::TestCpu cpu;
    cpu.context.communicator = &communicator;
    cpu.run<ops::Receive>({.pair = &of[1], .y = y.view().reshaped<3>({2, 2, 3})});
  }
  EXPECT_TRUE(y == x);
}

}  // namespace
}  // namespace baleen
