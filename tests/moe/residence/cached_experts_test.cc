// Which experts the copy buffers hold between steps of many tokens.
#include "moe/residence/cached_experts.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace baleen {
namespace {

using Change = CachedExperts::Change;
using Use = std::vector<std::vector<double>>;

/// Of 3 blocks with 4 experts, the last two of each away.
constexpr ExpertCounts kCounts{.num_blocks = 3, .num_experts = 4, .num_on_host = 6, .num_selected = 2};
constexpr std::int64_t kAll = 1000;

void put(CachedExperts& cached, const std::vector<Change>& changes) {
  for (const auto& [place, expert] : changes) {
    if (const auto now = cached.place_of(expert)) cached.drop(*now);
    cached.put(place, expert);
  }
}

TEST(ExpertCounts, BuffersHoldExpertsWhereStepsLeaveRoom) {
  EXPECT_EQ(kCounts.num_buffer_places(), 4);
  EXPECT_EQ(kCounts.num_buffer_places_for(1), 2);
  EXPECT_EQ(kCounts.num_buffer_places_for(100), 2) << "no more are away in a block";
  EXPECT_EQ(kCounts.most_cached(1), 2);
  const ExpertCounts flash{.num_blocks = 43, .num_experts = 256, .num_on_host = 10'869, .num_selected = 6};
  EXPECT_EQ(flash.num_buffer_places(), 506);
  EXPECT_EQ(flash.most_cached(1), 500);
  EXPECT_EQ(flash.most_cached(8), 458);
  EXPECT_EQ(flash.most_cached(256), 253);
  // What the tokens of another group choose is not known.
  ExpertCounts groups = flash;
  groups.num_groups = 2;
  EXPECT_EQ(groups.most_cached(1), 253);
}

TEST(CachedExperts, FillEmptyPlacesBlockByBlock) {
  const ExpertPlacement placement(kCounts);
  CachedExperts cached(kCounts);
  EXPECT_TRUE(cached.empty());
  const std::vector<Change> first = cached.improvements(placement, {}, 0, kAll);
  EXPECT_EQ(first, (std::vector<Change>{{0, {0, 2}}, {1, {1, 2}}, {2, {2, 2}}, {3, {0, 3}}}));
  EXPECT_EQ(cached.improvements(placement, {}, 0, 3).size(), 3U);
  put(cached, first);
  EXPECT_FALSE(cached.empty());
  EXPECT_EQ(cached.place_of({0, 3}), 3);
  EXPECT_EQ(cached.at(1), (BlockExpert{1, 2}));
  EXPECT_EQ(cached.place_of({1, 3}), std::nullopt);
  EXPECT_TRUE(cached.improvements(placement, {}, 0, kAll).empty()) << "of equal use none moves";
}

TEST(CachedExperts, AreThoseUsedMost) {
  const ExpertPlacement placement(kCounts);
  CachedExperts cached(kCounts);
  // Those on the device are used more than all others.
  const Use use{{90, 90, 1, 9}, {90, 90, 20, 3}, {90, 90, 10, 30}};
  put(cached, cached.improvements(placement, use, 2, kAll));
  EXPECT_EQ(cached.at(0), std::nullopt) << "the first places are for steps";
  EXPECT_EQ(cached.at(2), (BlockExpert{2, 3}));
  EXPECT_EQ(cached.at(3), (BlockExpert{1, 2}));
  // Another one is used more, but not clearly; then it is.
  Use next = use;
  next[0][2] = 54;
  EXPECT_TRUE(cached.improvements(placement, next, 2, kAll).empty());
  next[0][2] = 57;
  EXPECT_EQ(cached.improvements(placement, next, 2, kAll), (std::vector<Change>{{3, {0, 2}}}));
  EXPECT_EQ(cached.improvements(placement, next, 0, kAll), (std::vector<Change>{{0, {0, 2}}, {1, {2, 2}}}))
      << "there are empty places";
}

/// Experts on disk have no copy in memory to come from.
TEST(CachedExperts, AreOfTheHostsMemory) {
  ExpertCounts counts = kCounts;
  counts.num_on_host = counts.num_on_disk = 3;
  const ExpertPlacement placement(counts);
  const CachedExperts cached(counts);
  std::set<std::int64_t> blocks;
  for (const auto& [place, expert] : cached.improvements(placement, {}, 0, kAll)) {
    EXPECT_EQ(placement.level(expert.block, expert.expert), ExpertLevel::kHost);
    EXPECT_TRUE(blocks.insert(expert.block).second);
  }
  EXPECT_EQ(blocks.size(), 3U);
}

TEST(CachedExperts, APlaceAndAnExpertKnowEachOther) {
  CachedExperts cached(kCounts);
  std::mt19937 random(1);
  for (int i = 0; i < 500; ++i) {
    const BlockExpert expert{static_cast<std::int64_t>(random() % 3),
                             static_cast<std::int64_t>(random() % 4)};
    const auto place = static_cast<std::int64_t>(random() % 4);
    if (random() % 3 == 0) {
      cached.drop(place);
    } else if (!cached.place_of(expert)) {
      cached.put(place, expert);
    }
    std::int64_t count = 0;
    for (std::int64_t at = 0; at < cached.num_places(); ++at) {
      if (!cached.at(at)) continue;
      ++count;
      EXPECT_EQ(cached.place_of(*cached.at(at)), at);
    }
    EXPECT_EQ(cached.empty(), count == 0);
    for (std::int64_t one = 0; one < 12; ++one) count -= cached.place_of({one / 4, one % 4}) ? 1 : 0;
    EXPECT_EQ(count, 0);
  }
}

}  // namespace
}  // namespace baleen
