// Balancers: the worked examples of the specification, and small cases against exhaustive search.

#include "moe/placement/expert_balance.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "base/error.h"

namespace baleen {
namespace {

using Ids = std::vector<std::int32_t>;
using Load = std::vector<double>;

const Load kFirst{90, 132, 40, 61, 104, 165, 39, 4, 73, 56, 183, 86};
const Load kSecond{20, 107, 104, 64, 19, 197, 187, 157, 172, 86, 16, 27};
const Load kEight{8, 1, 1, 6, 2, 2, 4, 0};

Ids slots(const ExpertMap& map) {
  return {map.physical_to_logical().begin(), map.physical_to_logical().end()};
}
Ids balanced_slots(const Load& load, const BalanceShape& shape) { return slots(balanced_map(load, shape)); }

TEST(ExpertBalance, HierarchicalExamples) {
  const BalanceShape shape{.num_slots = 16, .num_ranks = 8, .num_nodes = 2, .num_groups = 4};
  EXPECT_EQ(balanced_slots(kFirst, shape), (Ids{5, 6, 5, 7, 8, 4, 3, 4, 10, 9, 10, 2, 0, 1, 11, 1}));
  EXPECT_EQ(balanced_slots(kSecond, shape), (Ids{7, 10, 6, 8, 6, 11, 8, 9, 2, 4, 5, 1, 5, 0, 3, 1}));
}

TEST(ExpertBalance, GlobalExample) {
  const BalanceShape nodes{.num_slots = 16, .num_ranks = 8, .num_nodes = 2, .num_groups = 4};
  BalanceShape global = nodes;
  global.num_groups = 1;
  const ExpertMap map = balanced_map(kFirst, global);
  EXPECT_EQ(slots(map), (Ids{10, 6, 10, 7, 0, 2, 11, 4, 5, 9, 5, 4, 8, 3, 1, 1}));
  EXPECT_NEAR(balancedness(rank_loads(map, kFirst)), 0.932, 5e-4);
  EXPECT_NEAR(balancedness(rank_loads(balanced_map(kFirst, nodes), kFirst)), 0.828, 5e-4);
}

TEST(ExpertBalance, WithoutReplicas) {
  const ExpertMap map = balanced_map(kEight, {.num_slots = 8, .num_ranks = 4});
  EXPECT_EQ(slots(map), (Ids{0, 7, 3, 2, 6, 1, 4, 5}));
  EXPECT_EQ(rank_loads(map, kEight), (Load{8, 7, 5, 4}));
  EXPECT_EQ(rank_loads(ExpertMap::placed(ExpertOrder::kLinear, 8, 0, 4), kEight), (Load{9, 7, 4, 4}));
}

TEST(ExpertBalance, WithReplicas) {
  const ExpertMap map = balanced_map(kEight, {.num_slots = 12, .num_ranks = 4});
  EXPECT_EQ(slots(map), (Ids{3, 5, 1, 3, 6, 2, 0, 0, 7, 0, 4, 6}));
  const Load loads = rank_loads(map, kEight), want{6, 6, 16.0 / 3, 20.0 / 3};
  for (std::size_t rank = 0; rank < want.size(); ++rank) EXPECT_NEAR(loads[rank], want[rank], 1e-12);
  const Load four{100, 20, 60, 20};
  const ExpertMap two = balanced_map(four, {.num_slots = 6, .num_ranks = 2});
  EXPECT_EQ(slots(two), (Ids{0, 2, 1, 0, 2, 3}));
  EXPECT_EQ(rank_loads(two, four), (Load{100, 100}));
}

/// The smallest largest load that any map has: slots are filled one after the other with every expert.
double best_of_all(const Load& load, const BalanceShape& shape, Ids& filled) {
  double best = 1e300;
  if (std::ssize(filled) == shape.num_slots) {
    for (std::int32_t expert = 0; expert < std::ssize(load); ++expert) {
      if (std::ranges::find(filled, expert) == filled.end()) return best;
    }
    return std::ranges::max(rank_loads(ExpertMap(filled, std::ssize(load), shape.num_ranks), load));
  }
  // Within a rank order means nothing.
  const bool begins = std::ssize(filled) % (shape.num_slots / shape.num_ranks) == 0;
  for (std::int32_t expert = begins ? 0 : filled.back(); expert < std::ssize(load); ++expert) {
    filled.push_back(expert);
    best = std::min(best, best_of_all(load, shape, filled));
    filled.pop_back();
  }
  return best;
}

TEST(ExpertBalance, SmallCasesAgainstExhaustiveSearch) {
  std::mt19937 random(3);
  int num_best = 0, num_cases = 0;
  for (const auto& [num_experts, shape] :
       {std::pair<int, BalanceShape>{6, {.num_slots = 6, .num_ranks = 2}},
        std::pair<int, BalanceShape>{6, {.num_slots = 6, .num_ranks = 3}},
        std::pair<int, BalanceShape>{4, {.num_slots = 6, .num_ranks = 2}},
        std::pair<int, BalanceShape>{3, {.num_slots = 6, .num_ranks = 3}}}) {
    for (int round = 0; round < 25; ++round) {
      Load load;
      for (int e = 0; e < num_experts; ++e) load.push_back(1 + static_cast<double>(random() % 20));
      Ids filled;
      const double best = best_of_all(load, shape, filled);
      const double got = std::ranges::max(rank_loads(balanced_map(load, shape), load));
      EXPECT_GE(got, best - 1e-9) << testing::PrintToString(load);
      EXPECT_LE(got, best * 1.34) << testing::PrintToString(load);
      num_best += got <= best + 1e-9 ? 1 : 0;
      ++num_cases;
    }
  }
  EXPECT_GE(num_best, num_cases / 2);
}

TEST(ExpertBalance, NodesThatDoNotDivideGroupsMeanGlobal) {
  const BalanceShape three{.num_slots = 12, .num_ranks = 6, .num_nodes = 3, .num_groups = 4};
  EXPECT_EQ(balanced_slots(kFirst, three), balanced_slots(kFirst, {.num_slots = 12, .num_ranks = 6}));
}

TEST(ExpertBalance, ShapesThatCannotBe) {
  const auto refuse = [](const BalanceShape& shape) {
    EXPECT_THROW(static_cast<void>(balanced_map(kEight, shape)), Error);
  };
  refuse({.num_slots = 7, .num_ranks = 1});
  refuse({.num_slots = 9, .num_ranks = 2});
  refuse({.num_slots = 8, .num_ranks = 4, .num_nodes = 3});
  refuse({.num_slots = 8, .num_ranks = 4, .num_groups = 3});
  refuse({.num_slots = 8, .num_ranks = 0});
}

/// Renamed ranks have the same loads, and experts stay in their slots where they can.
TEST(ExpertBalance, SettledMapsMoveLittle) {
  const ExpertMap linear = ExpertMap::placed(ExpertOrder::kLinear, 8, 0, 4);
  // The same ranks in another order: nothing moves.
  EXPECT_EQ(settled(ExpertMap({5, 4, 7, 6, 1, 0, 3, 2}, 8, 4), linear), linear);
  EXPECT_EQ(num_moved(linear, linear), 0);
  EXPECT_EQ(num_moved(linear, ExpertMap({2, 3, 0, 1, 4, 5, 6, 7}, 8, 4)), 4);
  EXPECT_EQ(num_moved(ExpertMap({0, 1, 0, 1}, 2, 2), ExpertMap({0, 0, 1, 1}, 2, 2)), 0);
  std::mt19937 random(6);
  std::int64_t moved = 0, moved_settled = 0;
  for (int round = 0; round < 100; ++round) {
    const BalanceShape shape{.num_slots = 16 + 4 * (round % 3), .num_ranks = 4};
    const auto map_of = [&] {
      Load load;
      for (int e = 0; e < 16; ++e) load.push_back(static_cast<double>(random() % 50));
      return std::pair(balanced_map(load, shape), load);
    };
    const ExpertMap now = map_of().first;
    const auto [next, load] = map_of();
    const ExpertMap got = settled(next, now);
    Load want_loads = rank_loads(next, load), loads = rank_loads(got, load);
    std::ranges::sort(want_loads);
    std::ranges::sort(loads);
    EXPECT_EQ(loads, want_loads);
    EXPECT_EQ(settled(got, got), got);
    moved += num_moved(now, next);
    moved_settled += num_moved(now, got);
    for (std::int64_t rank = 0; rank < 4; ++rank) {
      // What stays, stays in its slot: where slots differ, the old expert is gone or has fewer copies here.
      const auto was = now.local_to_logical(rank), is = got.local_to_logical(rank);
      for (std::size_t slot = 0; slot < was.size(); ++slot) {
        if (was[slot] == is[slot]) continue;
        EXPECT_LT(std::ranges::count(is, was[slot]), std::ranges::count(was, was[slot]));
      }
    }
  }
  EXPECT_LT(moved_settled, moved);
}

TEST(ExpertBalance, NoLoadIsBalanced) {
  const ExpertMap map = balanced_map(Load(8, 0.0), {.num_slots = 12, .num_ranks = 4});
  EXPECT_EQ(balancedness(rank_loads(map, Load(8, 0.0))), 1);
}

}  // namespace
}  // namespace baleen
