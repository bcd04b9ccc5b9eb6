// Expert maps: the placements of the specification, refusals, and random maps under random routings.

#include "ops/dispatch/expert_map.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "base/error.h"
#include "ops/dispatch/combine.h"
#include "ops/dispatch/dispatch.h"

namespace baleen {
namespace {

using Ids = std::vector<std::int32_t>;

Ids slots(const ExpertMap& map) {
  return {map.physical_to_logical().begin(), map.physical_to_logical().end()};
}

TEST(ExpertMap, PlacementsOfTheSpecification) {
  EXPECT_EQ(slots(ExpertMap::placed(ExpertOrder::kLinear, 8, 0, 2)), (Ids{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(slots(ExpertMap::placed(ExpertOrder::kRoundRobin, 8, 0, 2)), (Ids{0, 2, 4, 6, 1, 3, 5, 7}));
  EXPECT_EQ(slots(ExpertMap::placed(ExpertOrder::kLinear, 7, 0, 3)), (Ids{0, 1, 2, 3, 4, -1, 5, 6, -1}));
  EXPECT_EQ(slots(ExpertMap::placed(ExpertOrder::kRoundRobin, 7, 0, 3)), (Ids{0, 3, 6, 1, 4, -1, 2, 5, -1}));
  const ExpertMap map = ExpertMap::placed(ExpertOrder::kRoundRobin, 8, 0, 4);
  for (std::int32_t e = 0; e < 8; ++e) EXPECT_EQ(map.replicas(e).front(), e % 4 * 2 + e / 4);
}

TEST(ExpertMap, CopiesLieOnOtherRanks) {
  const ExpertMap map = ExpertMap::placed(ExpertOrder::kLinear, 8, 4, 4);
  EXPECT_EQ(slots(map), (Ids{0, 1, 2, 2, 3, 0, 4, 5, 1, 6, 7, 3}));
  EXPECT_EQ(map.replicas(0).size(), 2U);
  EXPECT_EQ(map.replicas(7).size(), 1U);
}

TEST(ExpertMap, RefusesWhatIsNoMap) {
  EXPECT_THROW(ExpertMap({0, 1, 2}, 3, 2), Error) << "three slots on two ranks";
  EXPECT_THROW(ExpertMap({0, 0}, 2, 1), Error) << "no slot holds expert 1";
  EXPECT_THROW(ExpertMap({0, 2}, 2, 1), Error) << "no such expert";
}

TEST(ExpertMap, ReplicasShareTheAssignments) {
  const ExpertMap map({0, 1, 0, 0}, 2, 2);
  std::vector<int> load(4);
  for (std::int64_t index = 0; index < 3000; ++index) {
    const std::int32_t slot = map.slot_for(0, index);
    EXPECT_EQ(slot, map.slot_for(0, index));
    ++load[static_cast<std::size_t>(slot)];
  }
  for (const int slot : {0, 2, 3}) EXPECT_NEAR(load[static_cast<std::size_t>(slot)], 1000, 200);
}

/// Arrays of one rank whose rows are one value wide: its number.
struct RankRows {
  std::vector<float> x, weights, arrived, arrived_weights, out;
  Ids ids, arrived_ids;
  DispatchedRows received;
};

/// Over random routings and maps: every assignment arrives at exactly one slot, which holds its expert; and
/// experts that return their input give each token as often as it has experts.
TEST(ExpertMap, EachAssignmentIsComputedOnceUnderAnyMap) {
  std::mt19937 random(11);
  for (int round = 0; round < 60; ++round) {
    const std::int64_t num_ranks = 1 + round % 8, num_experts = 5 + round % 4, num_chosen = 3;
    const auto below = [&](std::int64_t end) {
      return static_cast<std::int32_t>(random() % static_cast<std::uint32_t>(end));
    };
    Ids held;
    for (std::int32_t e = 0; e < num_experts; ++e) held.push_back(e);
    while (std::ssize(held) % num_ranks != 0 || std::ssize(held) < num_experts + round % 5)
      held.push_back(below(num_experts));
    std::ranges::shuffle(held, random);
    const ExpertMap map(held, num_experts, num_ranks);
    std::vector<RankGroup> groups;
    std::vector<RankRows> ranks(static_cast<std::size_t>(num_ranks));
    std::vector<DispatchArgs> dispatches;
    std::vector<CombineArgs> combines;
    for (std::int64_t rank = 0; rank < num_ranks; ++rank)
      groups.push_back(RankGroup::strided(0, 1, num_ranks, rank));
    constexpr std::int64_t kMaxRows = 9;
    const std::int64_t room = num_ranks * kMaxRows * num_chosen;
    std::int64_t num_sent = 0, num_arrived = 0;
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      RankRows& rank = ranks[r];
      const std::int64_t num_rows = below(kMaxRows + 1);
      for (std::int64_t row = 0; row < num_rows; ++row) {
        rank.x.push_back(static_cast<float>(100 * r + static_cast<std::size_t>(row) + 1));
        Ids all(static_cast<std::size_t>(num_experts));
        for (std::int32_t e = 0; e < num_experts; ++e) all[static_cast<std::size_t>(e)] = e;
        std::ranges::shuffle(all, random);
        if (below(4) == 0) all[0] = -1;  // a slot without an expert
        rank.ids.insert(rank.ids.end(), all.begin(), all.begin() + num_chosen);
        num_sent += num_chosen - (all[0] < 0 ? 1 : 0);
      }
      // The weight carries the logical id, to compare with the slot where it arrives.
      for (const std::int32_t id : rank.ids) rank.weights.push_back(static_cast<float>(id));
      rank.out.resize(rank.x.size());
      rank.arrived.resize(static_cast<std::size_t>(room));
      rank.arrived_ids.resize(rank.arrived.size());
      rank.arrived_weights.resize(rank.arrived.size());
      dispatches.push_back(
          {.placement = {.stage = &groups[r], .ep = num_ranks, .num_experts = num_experts, .map = &map},
           .x = Activations<2>(rank.x.data(), {num_rows, 1}),
           .ids = {rank.ids.data(), {num_rows, num_chosen}},
           .weights = Activations<2>(rank.weights.data(), {num_rows, num_chosen}),
           .arrived = {rank.arrived.data(), {room, 1}},
           .arrived_ids = {rank.arrived_ids.data(), {room, 1}},
           .arrived_weights = {rank.arrived_weights.data(), {room, 1}},
           .received = &rank.received});
    }
    dispatch_ref(dispatches);
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      RankRows& rank = ranks[r];
      num_arrived += rank.received.num_rows;
      for (std::size_t row = 0; row < static_cast<std::size_t>(rank.received.num_rows); ++row) {
        const std::int64_t slot = rank.arrived_ids[row];
        EXPECT_EQ(slot / map.slots_per_rank(), static_cast<std::int64_t>(r));
        EXPECT_EQ(static_cast<float>(map.physical_to_logical()[static_cast<std::size_t>(slot)]),
                  rank.arrived_weights[row]);
      }
      combines.push_back({.placement = dispatches[r].placement,
                          .y = Activations<2>(rank.arrived.data(), {rank.received.num_rows, 1}),
                          .received = &rank.received,
                          .ids = dispatches[r].ids,
                          .precision = Precision::kExact,
                          .out = {rank.out.data(), {std::ssize(rank.x), 1}}});
    }
    EXPECT_EQ(num_arrived, num_sent) << "round " << round;
    combine_ref(combines);
    for (const RankRows& rank : ranks) {
      for (std::size_t row = 0; row < rank.x.size(); ++row) {
        const auto first = rank.ids.begin() + static_cast<std::ptrdiff_t>(row) * num_chosen;
        const auto experts =
            std::count_if(first, first + num_chosen, [](std::int32_t id) { return id >= 0; });
        EXPECT_EQ(rank.out[row], static_cast<float>(experts) * rank.x[row]);
      }
    }
  }
}

}  // namespace
}  // namespace baleen
