// Which experts are fetched and which the host computes, against all splits tried one after the other.
#include "ops/experts/expert_split.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace baleen {
namespace {

struct Split {
  std::vector<std::int32_t> fetched;
  std::uint64_t ns = 0;
};

/// As a kernel takes it: every expert's thread tries the split that begins with it.
Split split(const std::vector<SplitExpert>& experts, const HostExpertTimes& times) {
  const int count = static_cast<int>(experts.size());
  SplitTime best = split_time(experts.data(), count, nullptr, times);
  for (const SplitExpert& expert : experts)
    best.word = std::min(best.word, split_time(experts.data(), count, &expert, times).word);
  Split taken{.ns = best.ns()};
  for (const SplitExpert& expert : experts) {
    if (fetched_before(experts.data(), count, expert) < best.num_fetched())
      taken.fetched.push_back(expert.expert);
  }
  return taken;
}

/// The least that any choice of experts to fetch takes.
std::uint64_t least_ns(const std::vector<SplitExpert>& experts, const HostExpertTimes& times) {
  std::uint64_t least = ~std::uint64_t{0};
  for (unsigned fetched = 0; fetched < 1U << experts.size(); ++fetched) {
    std::uint64_t fetch = 0, compute = 0;
    bool possible = true;
    for (std::size_t i = 0; i < experts.size(); ++i) {
      if ((fetched >> i & 1) == 0) {
        compute += compute_ns(experts[i], times);
      } else if (experts[i].on_disk) {
        possible = false;
      } else {
        fetch += static_cast<std::uint64_t>(experts[i].num_pieces) * times.fetch_piece;
      }
    }
    if (compute > 0) {
      const std::int64_t total = static_cast<std::int64_t>(compute) + times.hand_over;
      compute = static_cast<std::uint64_t>(std::max<std::int64_t>(total, 0));
    }
    if (possible) least = std::min(least, std::max(fetch, compute));
  }
  return least;
}

std::vector<SplitExpert> alike(int count, int num_pieces) {
  std::vector<SplitExpert> experts;
  for (int i = 0; i < count; ++i)
    experts.push_back({.expert = i, .num_rows = 1, .num_pieces = num_pieces, .on_disk = false});
  return experts;
}

TEST(ExpertSplit, OfEqualExpertsIsTheBestOfAll) {
  constexpr int kPieces = 204;
  for (int count = 0; count <= 12; ++count) {
    for (const std::uint32_t compute : {1U, 60'000U, 160'000U, 267'240U, 1'000'000U, 4'000'000'000U}) {
      for (const std::uint32_t piece : {1U, 650U, 1310U, 2620U, 1'000'000U}) {
        for (const std::int32_t hand_over : {0, 10'000, 1'000'000, -50'000}) {
          const HostExpertTimes times{piece, compute, compute / 8, hand_over};
          const std::vector<SplitExpert> experts = alike(count, kPieces);
          EXPECT_EQ(split(experts, times).ns, least_ns(experts, times))
              << count << " experts, " << compute << " and " << piece << " ns";
        }
      }
    }
  }
}

TEST(ExpertSplit, AllWaysOfFlashOnAXeon) {
  // 1,310 ns a piece are 50 GB/s; cores that read 66 GB/s compute an expert in 203 us.
  const HostExpertTimes times{1310, 203'000, 20'000, 10'000};
  EXPECT_EQ(split(alike(6, 204), times).fetched.size(), 3U);
  EXPECT_EQ(split(alike(1, 204), times).fetched.size(), 0U);
  // A slow host computes nothing, a slow link fetches nothing.
  EXPECT_EQ(split(alike(6, 204), {1310, 20'000'000, 0, 0}).fetched.size(), 6U);
  EXPECT_EQ(split(alike(6, 204), {1'000'000, 203'000, 0, 0}).fetched.size(), 0U);
}

TEST(ExpertSplit, OfEqualTimesFetchesMost) {
  const HostExpertTimes times{1, 10, 0, 0};
  EXPECT_EQ(split(alike(1, 10), times).fetched, std::vector<std::int32_t>({0}));
  EXPECT_EQ(split(alike(3, 10), times).fetched.size(), 2U);  // 20 and 10, or 10 and 20
}

TEST(ExpertSplit, WhatHasPartlyComeIsFetchedFirst) {
  std::vector<SplitExpert> experts = alike(3, 10);
  experts[1].num_pieces = 4;
  const HostExpertTimes times{10, 60, 0, 0};
  EXPECT_EQ(split(experts, times).fetched, std::vector<std::int32_t>({1}));  // 40 beside 120
  experts[1].num_pieces = 10;
  experts[2].num_rows = 2;  // dearer to compute
  EXPECT_EQ(split(experts, {10, 60, 50, 0}).fetched, std::vector<std::int32_t>({2}));
}

TEST(ExpertSplit, ExpertsOnDiskAreComputedWhateverThatTakes) {
  std::vector<SplitExpert> experts = alike(3, 10);
  experts[0].on_disk = true;
  EXPECT_EQ(split(experts, {1, 1'000'000, 0, 0}).fetched, std::vector<std::int32_t>({1, 2}));
  for (SplitExpert& expert : experts) expert.on_disk = true;
  EXPECT_TRUE(split(experts, {1, 1'000'000, 0, 0}).fetched.empty());
}

TEST(ExpertSplit, OfDifferentExpertsIsTheBestOfItsOrder) {
  std::mt19937 random(1);
  const auto draw = [&](std::uint32_t end) { return static_cast<std::uint32_t>(random() % end); };
  for (int trial = 0; trial < 2000; ++trial) {
    std::vector<SplitExpert> experts;
    for (std::int32_t i = 0; i < static_cast<std::int32_t>(draw(11)); ++i) {
      experts.push_back({.expert = i,
                         .num_rows = 1 + static_cast<std::int32_t>(draw(3)),
                         .num_pieces = 1 + static_cast<std::int32_t>(draw(4)),
                         .on_disk = draw(8) == 0});
    }
    const HostExpertTimes times{1 + draw(20), 1 + draw(60), draw(20), static_cast<std::int32_t>(draw(20))};
    const Split taken = split(experts, times);
    EXPECT_GE(taken.ns, least_ns(experts, times));
    // Of the same experts in another order the same ones are fetched.
    std::vector<SplitExpert> shuffled = experts;
    std::ranges::shuffle(shuffled, random);
    Split again = split(shuffled, times);
    std::ranges::sort(again.fetched);
    EXPECT_EQ(again.fetched, taken.fetched);
    // No other number of experts in this order takes less.
    std::ranges::sort(shuffled, is_fetched_before);
    for (std::size_t num_fetched = 0; num_fetched <= shuffled.size(); ++num_fetched) {
      std::uint64_t fetch = 0;
      std::uint64_t compute = num_fetched < shuffled.size() ? static_cast<std::uint64_t>(times.hand_over) : 0;
      bool possible = true;
      for (std::size_t i = 0; i < shuffled.size(); ++i) {
        if (i >= num_fetched) compute += compute_ns(shuffled[i], times);
        if (i < num_fetched) {
          fetch += static_cast<std::uint64_t>(shuffled[i].num_pieces) * times.fetch_piece;
          possible &= !shuffled[i].on_disk;
        }
      }
      if (!possible) continue;
      EXPECT_LE(taken.ns, std::max(fetch, compute));
      if (std::max(fetch, compute) == taken.ns) {
        EXPECT_LE(num_fetched, taken.fetched.size());
      }
    }
  }
}

}  // namespace
}  // namespace baleen
