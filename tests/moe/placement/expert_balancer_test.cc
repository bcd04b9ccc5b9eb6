// When loads are evaluated, of which window, and which layers change.
#include "moe/placement/expert_balancer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "base/error.h"
#include "moe/placement/expert_balance.h"

namespace baleen {
namespace {

using Loads = std::vector<double>;

constexpr std::int64_t kExpertBytes = 100;

std::vector<ExpertMap> linear(std::size_t num_layers, std::int64_t num_copies = 0) {
  return std::vector<ExpertMap>(num_layers, ExpertMap::placed(ExpertOrder::kLinear, 8, num_copies, 4));
}

/// Totals of layers whose experts get `each` at every step.
ExpertLoads totals(const ExpertLoads& each, std::int64_t num_steps) {
  ExpertLoads loads = each;
  for (std::vector<std::int64_t>& layer : loads) {
    for (std::int64_t& load : layer) load *= num_steps;
  }
  return loads;
}

const std::vector<std::int64_t> kUneven{8, 1, 1, 6, 2, 2, 4, 0}, kEven(8, 3), kNone(8, 0);

TEST(ExpertBalancer, CountsTheWindowBeforeEachEvaluation) {
  for (const auto& [window, interval, first] : std::vector<std::array<std::int64_t, 3>>{
           {10, 30, 8}, {10, 30, 10}, {10, 30, 12}, {7, 2, 3}, {1, 1, 1}, {1, 5, 9}, {1000, 3000, 750}}) {
    SCOPED_TRACE(testing::PrintToString(std::array{window, interval, first}));
    ExpertBalancer balancer({.enabled = true,
                             .window_steps = window,
                             .interval_steps = interval,
                             .first_steps = first,
                             .min_gain = 2},
                            linear(1), {kExpertBytes});
    // Step s adds s + 1 tokens of expert 0, so the sum says which steps were counted.
    std::int64_t total = 0, num_evaluations = 0, num_times = 0;
    for (std::int64_t step = 0; step < first + 3 * interval; ++step) {
      if (balancer.wants_loads()) {
        ++num_times;
        EXPECT_TRUE(balancer.take_loads({{total, 0, 0, 0, 0, 0, 0, 0}}).empty());
      }
      const bool is_due = step >= first && (step - first) % interval == 0;
      num_evaluations += is_due ? 1 : 0;
      ASSERT_EQ(balancer.state().num_evaluations, num_evaluations) << "step " << step;
      if (is_due) {
        const std::int64_t begin = std::max<std::int64_t>(0, step - window);
        const Loads& got = balancer.state().layers[0].before;
        const std::int64_t want = (step * (step + 1) - begin * (begin + 1)) / 2;
        EXPECT_EQ(got.front(), static_cast<double>(want));
      }
      balancer.count_step();
      total += step + 1;
    }
    EXPECT_EQ(num_evaluations, 3);
    if (window <= interval) {
      EXPECT_LE(num_times, 2 * num_evaluations + 1) << "loads are wanted rarely";
    }
  }
}

/// Evaluated after one step.
ExpertBalancer evaluated(BalanceOptions options, const ExpertLoads& loads,
                         std::vector<BlockExperts>& changes) {
  options.first_steps = 1;
  ExpertBalancer balancer(options, linear(loads.size()),
                          std::vector<std::int64_t>(loads.size(), kExpertBytes));
  EXPECT_TRUE(balancer.take_loads(totals(loads, 0)).empty());
  balancer.count_step();
  EXPECT_TRUE(balancer.wants_loads());
  changes = balancer.take_loads(loads);
  return balancer;
}

TEST(ExpertBalancer, OnlyLayersThatGainChange) {
  std::vector<BlockExperts> changes;
  ExpertBalancer balancer = evaluated({}, {kEven, kUneven, kNone}, changes);
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_EQ(changes[0].block, 1);
  // The example of the specification: 24 tokens, at best 8 on one of 4 ranks, 9 before.
  const LayerBalance& uneven = balancer.state().layers[1];
  EXPECT_EQ(uneven.before, (Loads{9, 7, 4, 4}));
  EXPECT_EQ(uneven.after, uneven.before) << "nothing has changed yet";
  balancer.changed(1);
  Loads after = balancer.state().layers[1].after;
  std::ranges::sort(after);
  EXPECT_EQ(after, (Loads{4, 5, 7, 8}));
  EXPECT_EQ(balancer.state().num_rebalancings, 1);
  EXPECT_EQ(balancer.state().moved_bytes, balancer.state().num_moved_experts * kExpertBytes);
  EXPECT_EQ(balancer.maps()[0], linear(1)[0]);
  EXPECT_TRUE(std::ranges::equal(balancer.maps()[1].physical_to_logical(), changes[0].slots));
  EXPECT_NEAR(balancer.state().before().least, 24.0 / 36, 1e-12);
  EXPECT_NEAR(balancer.state().after().least, 24.0 / 32, 1e-12);
  EXPECT_NEAR(balancer.state().after().mean, (1 + 24.0 / 32) / 2, 1e-12)
      << "a layer without tokens is left out";

  const double gain = 24.0 / 32 - 24.0 / 36;
  evaluated({.min_gain = gain + 1e-6}, {kUneven}, changes);
  EXPECT_TRUE(changes.empty());
  evaluated({.min_gain = gain - 1e-6}, {kUneven}, changes);
  EXPECT_EQ(changes.size(), 1u);
}

TEST(ExpertBalancer, AFailureChangesNothing) {
  std::vector<BlockExperts> changes;
  ExpertBalancer balancer = evaluated({}, {kUneven}, changes);
  ASSERT_EQ(changes.size(), 1u);
  balancer.failed("rank 2 has no memory");
  EXPECT_EQ(balancer.maps()[0], linear(1)[0]);
  EXPECT_EQ(balancer.state().layers[0].after, balancer.state().layers[0].before);
  EXPECT_EQ(balancer.state().num_failures, 1);
  EXPECT_EQ(balancer.state().num_rebalancings, 0);
  EXPECT_EQ(balancer.state().moved_bytes, 0);
  EXPECT_EQ(balancer.state().last_failure, "rank 2 has no memory");
}

/// Blocks that change one after the other, of which the second fails.
TEST(ExpertBalancer, WhatHasChangedStaysWhenTheRestFails) {
  std::vector<BlockExperts> changes;
  ExpertBalancer balancer = evaluated({}, {kUneven, kEven, kUneven}, changes);
  ASSERT_EQ(changes.size(), 2u);
  balancer.changed(1);
  EXPECT_EQ(balancer.state().num_rebalancings, 0) << "not all of it";
  balancer.failed("rank 2 has no memory");
  EXPECT_TRUE(std::ranges::equal(balancer.maps()[0].physical_to_logical(), changes[0].slots));
  EXPECT_EQ(balancer.maps()[2], linear(1)[0]);
  EXPECT_EQ(balancer.state().num_failures, 1);
}

TEST(ExpertBalancer, TheBudgetGoesToTheLayersThatGainMost) {
  const std::vector<std::int64_t> worst{20, 20, 0, 0, 0, 0, 0, 0};  // both on one rank
  std::vector<BlockExperts> changes;
  ExpertBalancer free = evaluated({}, {kUneven, worst, kUneven}, changes);
  ASSERT_EQ(changes.size(), 3u);
  evaluated({}, {worst}, changes);
  ExpertBalancer alone = evaluated({}, {worst}, changes);
  alone.changed(1);
  const std::int64_t needed = alone.state().moved_bytes;
  ASSERT_GT(needed, 0);

  ExpertBalancer balancer = evaluated({.max_moved_bytes = needed}, {kUneven, worst, kUneven}, changes);
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_EQ(changes[0].block, 1);
  balancer.changed(1);
  EXPECT_EQ(balancer.state().moved_bytes, needed);
  evaluated({.max_moved_bytes = 1}, {kUneven, worst, kUneven}, changes);
  EXPECT_TRUE(changes.empty());
}

/// Over random loads: what is proposed is a map of all experts, has the loads that were predicted, gains, and
/// keeps to the budget.
TEST(ExpertBalancer, ProposalsAreMapsThatGain) {
  std::mt19937 random(4);
  std::int64_t num_changes = 0;
  for (int round = 0; round < 200; ++round) {
    const std::int64_t num_copies = 4 * (round % 3),
                       budget = round % 2 == 0 ? 0 : kExpertBytes * (round % 40);
    ExpertBalancer balancer({.first_steps = 1, .max_moved_bytes = budget}, linear(3, num_copies),
                            std::vector<std::int64_t>(3, kExpertBytes));
    ExpertLoads loads(3, std::vector<std::int64_t>(8));
    for (std::vector<std::int64_t>& layer : loads) {
      for (std::int64_t& load : layer) load = static_cast<std::int64_t>(random() % 100) >> (random() % 6);
    }
    EXPECT_TRUE(balancer.take_loads(totals(loads, 0)).empty());
    balancer.count_step();
    const std::vector<ExpertMap> before(balancer.maps().begin(), balancer.maps().end());
    const std::vector<BlockExperts> changes = balancer.take_loads(loads);
    if (changes.empty()) continue;
    balancer.changed(changes.size());
    num_changes += std::ssize(changes);
    for (const BlockExperts& change : changes) {
      const auto block = static_cast<std::size_t>(change.block);
      const ExpertMap map(change.slots, 8, 4);  // throws if an expert is missing
      const LayerBalance& layer = balancer.state().layers[block];
      const Loads load(loads[block].begin(), loads[block].end());
      EXPECT_EQ(layer.after, rank_loads(map, load));
      EXPECT_EQ(layer.before, rank_loads(before[block], load));
      EXPECT_GE(balancedness(layer.after), balancedness(layer.before) + 0.05);
    }
    if (budget > 0) {
      EXPECT_LE(balancer.state().moved_bytes, budget);
    }
  }
  EXPECT_GT(num_changes, 100);
}

TEST(ExpertBalancer, RefusesOptionsThatCannotBe) {
  EXPECT_THROW(validate({.window_steps = 0}), Error);
  EXPECT_THROW(validate({.interval_steps = 0}), Error);
  EXPECT_THROW(validate({.first_steps = 0}), Error);
  EXPECT_THROW(validate({.max_moved_bytes = -1}), Error);
  EXPECT_NO_THROW(validate({}));
}

}  // namespace
}  // namespace baleen
