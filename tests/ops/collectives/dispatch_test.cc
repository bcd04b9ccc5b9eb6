// Dispatch and combine: each (token, expert) pair arrives once, and what returns is added in ascending
// expert.

#include "ops/dispatch/dispatch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "ops/dispatch/combine.h"
#include "tests/support/rank_threads.h"

namespace baleen {
namespace {

constexpr std::int64_t kWidth = 2, kChosen = 3;

/// One rank's tokens, and room for what comes to it.
struct RankArrays {
  std::int64_t num_rows;
  std::vector<float> x, weights, arrived, arrived_weights, out;
  std::vector<std::int32_t> ids, arrived_ids;
  DispatchedRows received;

  RankArrays(std::int64_t rows, std::int64_t room) : num_rows(rows) {
    const auto size = [](std::int64_t count) { return static_cast<std::size_t>(count); };
    x.resize(size(rows * kWidth));
    out.resize(x.size());
    weights.resize(size(rows * kChosen));
    ids.resize(weights.size());
    arrived.resize(size(room * kWidth));
    arrived_weights.resize(size(room));
    arrived_ids.resize(size(room));
  }
  DispatchArgs dispatch(const ExpertRanks& placement, DispatchWay way = DispatchWay::kAssignments) {
    const std::int64_t chosen = way == DispatchWay::kGatheredTokens ? kChosen : 1;
    const std::int64_t room = std::ssize(arrived_ids) / chosen;
    return {.placement = placement,
            .x = Activations<2>(x.data(), {num_rows, kWidth}),
            .ids = {ids.data(), {num_rows, kChosen}},
            .weights = Activations<2>(weights.data(), {num_rows, kChosen}),
            .way = way,
            .arrived = {arrived.data(), {room, kWidth}},
            .arrived_ids = {arrived_ids.data(), {room, chosen}},
            .arrived_weights = {arrived_weights.data(), {room, chosen}},
            .received = &received};
  }
  CombineArgs combine(const ExpertRanks& placement) {
    return {.placement = placement,
            .y = Activations<2>(arrived.data(), {received.num_rows, kWidth}),
            .received = &received,
            .ids = {ids.data(), {num_rows, kChosen}},
            .precision = Precision::kExact,
            .out = {out.data(), {num_rows, kWidth}}};
  }
};

struct Case {
  std::int64_t ep, moe_tp;
  std::vector<std::int64_t> rows;  ///< of each rank; some have none
};

class DispatchTest : public testing::TestWithParam<Case> {
 protected:
  static constexpr std::int64_t kExperts = 12;

  void SetUp() override {
    const std::int64_t size = std::ssize(GetParam().rows);
    std::mt19937 random(5);
    std::int64_t total = 0;
    for (const std::int64_t rows : GetParam().rows) total += rows;
    for (std::int64_t rank = 0; rank < size; ++rank) {
      groups_.push_back(RankGroup::strided(0, 1, size, rank));
      RankArrays& arrays =
          ranks_.emplace_back(GetParam().rows[static_cast<std::size_t>(rank)], total * kChosen);
      for (std::int64_t row = 0; row < arrays.num_rows; ++row) {
        std::vector<std::int32_t> experts(kExperts);
        for (std::int32_t e = 0; e < kExperts; ++e) experts[static_cast<std::size_t>(e)] = e;
        std::ranges::shuffle(experts, random);
        if (row == 1) experts[1] = -1;  // a slot without an expert
        for (std::int64_t i = 0; i < kChosen; ++i) {
          const auto at = static_cast<std::size_t>(row * kChosen + i);
          arrays.ids[at] = experts[static_cast<std::size_t>(i)];
          arrays.weights[at] = static_cast<float>(1000 * rank + 10 * row + i);
        }
        for (std::int64_t i = 0; i < kWidth; ++i)
          arrays.x[static_cast<std::size_t>(row * kWidth + i)] =
              static_cast<float>(100 * rank + row) + 0.5F * static_cast<float>(i);
      }
    }
  }
  ExpertRanks placement(std::size_t rank) const {
    return {.stage = &groups_[rank], .ep = GetParam().ep, .num_experts = kExperts, .map = map_};
  }
  std::vector<DispatchArgs> dispatches(std::vector<RankArrays>& ranks, DispatchWay way) const {
    std::vector<DispatchArgs> args;
    for (std::size_t r = 0; r < ranks.size(); ++r) args.push_back(ranks[r].dispatch(placement(r), way));
    return args;
  }
  void dispatch(DispatchWay way = DispatchWay::kAssignments) {
    test::run_on_ranks<ops::Dispatch>(dispatches(ranks_, way));
  }
  /// What all ranks got, by both: on threads and by the reference, the same.
  std::vector<RankArrays> arrived(DispatchWay way) const {
    std::vector<RankArrays> by_threads = ranks_, by_reference = ranks_;
    test::run_on_ranks<ops::Dispatch>(dispatches(by_threads, way));
    dispatch_ref(dispatches(by_reference, way));
    for (std::size_t r = 0; r < ranks_.size(); ++r) expect_same(by_threads[r], by_reference[r]);
    return by_threads;
  }
  static void expect_same(const RankArrays& got, const RankArrays& want) {
    EXPECT_EQ(got.arrived, want.arrived);
    EXPECT_EQ(got.arrived_ids, want.arrived_ids);
    EXPECT_EQ(got.arrived_weights, want.arrived_weights);
    EXPECT_EQ(got.received.num_rows, want.received.num_rows);
    EXPECT_EQ(got.received.rows_from, want.received.rows_from);
  }

  const ExpertMap* map_ = nullptr;
  std::vector<RankGroup> groups_;
  std::vector<RankArrays> ranks_;
};

TEST_P(DispatchTest, EachPairArrivesOnceAtEveryRankOfItsExpert) {
  dispatch();
  for (std::size_t to = 0; to < ranks_.size(); ++to) {
    const RankArrays& at = ranks_[to];
    const std::int64_t index = static_cast<std::int64_t>(to) / GetParam().moe_tp;
    std::int64_t next = 0;
    for (const RankArrays& from : ranks_) {
      for (std::size_t slot = 0; slot < from.ids.size(); ++slot) {
        const std::int32_t expert = from.ids[slot];
        if (expert < 0 || expert / (kExperts / GetParam().ep) != index) continue;
        ASSERT_LT(next, at.received.num_rows);
        const auto row = static_cast<std::size_t>(next++);
        EXPECT_EQ(at.arrived_ids[row], expert);
        EXPECT_EQ(at.arrived_weights[row], from.weights[slot]);
        EXPECT_EQ(at.arrived[row * kWidth + 1], from.x[slot / kChosen * kWidth + 1]);
      }
    }
    EXPECT_EQ(next, at.received.num_rows);
  }
}

TEST_P(DispatchTest, TheReferenceOnArraysIsTheSame) {
  dispatch();
  std::vector<RankArrays> again = ranks_;
  std::vector<DispatchArgs> args;
  for (std::size_t r = 0; r < again.size(); ++r) args.push_back(again[r].dispatch(placement(r)));
  dispatch_ref(args);
  for (std::size_t r = 0; r < again.size(); ++r) {
    EXPECT_EQ(again[r].arrived, ranks_[r].arrived);
    EXPECT_EQ(again[r].arrived_ids, ranks_[r].arrived_ids);
    EXPECT_EQ(again[r].received.rows_from, ranks_[r].received.rows_from);
  }
}

/// Experts that return their input: a token gets itself as often as it has experts, and shares of an expert
/// add up.
TEST_P(DispatchTest, CombineOfTheIdentityIsTheIdentity) {
  dispatch();
  std::vector<CombineArgs> args;
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    for (float& value : ranks_[r].arrived) value /= static_cast<float>(GetParam().moe_tp);
    args.push_back(ranks_[r].combine(placement(r)));
  }
  test::run_on_ranks<ops::Combine>(args);
  std::vector<std::vector<float>> out;
  for (RankArrays& rank : ranks_) {
    for (std::size_t i = 0; i < rank.x.size(); ++i) {
      const auto row = static_cast<std::ptrdiff_t>(i / kWidth);
      const auto experts =
          std::count_if(rank.ids.begin() + row * kChosen, rank.ids.begin() + (row + 1) * kChosen,
                        [](std::int32_t id) { return id >= 0; });
      EXPECT_EQ(rank.out[i], static_cast<float>(experts) * rank.x[i]);
    }
    out.push_back(rank.out);
    std::ranges::fill(rank.out, -1.0F);
  }
  combine_ref(args);
  for (std::size_t r = 0; r < ranks_.size(); ++r) EXPECT_EQ(ranks_[r].out, out[r]);
}

/// Whether a sender picks assignments or the receiver does out of all rows: the same rows in the same order,
/// also where experts have copies anywhere.
TEST_P(DispatchTest, GatheredAssignmentsAreThoseThatAreSent) {
  std::mt19937 random(11);
  for (int turn = 0; turn < 4; ++turn) {
    ExpertMap map;
    if (turn > 0) {
      std::vector<std::int32_t> slots;
      for (std::int32_t e = 0; e < kExperts; ++e) slots.push_back(e);
      while (std::ssize(slots) < kExperts + turn * GetParam().ep || std::ssize(slots) % GetParam().ep != 0)
        slots.push_back(static_cast<std::int32_t>(random() % kExperts));
      std::ranges::shuffle(slots, random);
      map = ExpertMap(slots, kExperts, GetParam().ep);
      map_ = &map;
    }
    const std::vector<RankArrays> sent = arrived(DispatchWay::kAssignments);
    for (const DispatchWay way : {DispatchWay::kGatheredAssignments, DispatchWay::kGatheredPlaces}) {
      const std::vector<RankArrays> gathered = arrived(way);
      for (std::size_t r = 0; r < ranks_.size(); ++r) expect_same(gathered[r], sent[r]);
    }
  }
}

TEST_P(DispatchTest, GatheredTokensAreEveryonesInTheOrderOfRanks) {
  for (const RankArrays& at : arrived(DispatchWay::kGatheredTokens)) {
    std::int64_t next = 0;
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      const RankArrays& from = ranks_[r];
      EXPECT_EQ(at.received.rows_from[r], from.num_rows);
      for (std::int64_t row = 0; row < from.num_rows; ++row, ++next) {
        const auto to = static_cast<std::size_t>(next), sent = static_cast<std::size_t>(row);
        for (std::size_t i = 0; i < kWidth; ++i)
          EXPECT_EQ(at.arrived[to * kWidth + i], from.x[sent * kWidth + i]);
        for (std::size_t slot = 0; slot < kChosen; ++slot) {
          EXPECT_EQ(at.arrived_ids[to * kChosen + slot], from.ids[sent * kChosen + slot]);
          EXPECT_EQ(at.arrived_weights[to * kChosen + slot], from.weights[sent * kChosen + slot]);
        }
      }
    }
    EXPECT_EQ(at.received.num_rows, next);
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, DispatchTest,
                         testing::Values(Case{1, 1, {5}}, Case{2, 1, {3, 2}}, Case{2, 1, {0, 0}},
                                         Case{3, 1, {4, 0, 2}}, Case{4, 1, {1, 2, 3, 4}},
                                         Case{2, 2, {3, 0, 1, 2}}));

}  // namespace
}  // namespace baleen
