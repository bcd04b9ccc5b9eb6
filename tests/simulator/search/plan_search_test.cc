// Rankings, fronts and limits of the search for plans.

#include "simulator/search/plan_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "model/presets.h"

namespace baleen {
namespace {

const SimulatedModel& flash() {
  static const SimulatedModel model{"flash", preset_config("flash"), {}};
  return model;
}
const DeviceProfile& h200() { return *find_device_profile("h200"); }

/// Quick enough for many of them.
SearchOptions options() {
  return {.num_devices = 4,
          .load = {.prompt_tokens = 2048, .reply_tokens = 256},
          .ttft_limit_seconds = 1,
          .tpot_limit_seconds = 0.03,
          .max_concurrency = 32,
          .max_drafts = 1};
}

SearchResult search(const SearchOptions& wanted, int num_threads = 2, const DeviceProfile& device = h200()) {
  ThreadPool pool(num_threads);
  return search_plans(flash(), device, wanted, pool);
}

const SearchResult& usual() {
  static const SearchResult result = search(options());
  return result;
}

void expect_equal(const std::vector<DeploymentCandidate>& a, const std::vector<DeploymentCandidate>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].plan, b[i].plan) << i;
    EXPECT_EQ(a[i].concurrency, b[i].concurrency) << i;
    EXPECT_EQ(a[i].num_drafts, b[i].num_drafts) << i;
    EXPECT_EQ(a[i].prefill_plan, b[i].prefill_plan) << i;
    EXPECT_EQ(a[i].num_prefill_instances, b[i].num_prefill_instances) << i;
    EXPECT_EQ(a[i].tokens_per_second_per_device, b[i].tokens_per_second_per_device) << i;
    EXPECT_EQ(a[i].ttft_seconds, b[i].ttft_seconds) << i;
  }
}

/// A DSpark head drafts five at most, whatever is asked.
TEST(PlanSearch, OfV41) {
  const ModelConfig config = preset_config("v41-flash");
  const SimulatedModel model{
      "v41-flash", config, {.dense = config.dense_format, .experts = config.expert_format}};
  SearchOptions wanted = options();
  wanted.max_concurrency = 4;
  wanted.max_drafts = 8;
  ThreadPool pool(2);
  const SearchResult result = search_plans(model, h200(), wanted, pool);
  ASSERT_FALSE(result.ranked.empty());
  EXPECT_TRUE(std::ranges::any_of(result.ranked, [](const auto& c) { return c.num_drafts == 5; }));
  for (const DeploymentCandidate& c : result.ranked) {
    EXPECT_LE(c.num_drafts, 5) << to_text(c.plan);
    EXPECT_EQ(violations(c.plan, config), std::vector<std::string>{}) << to_text(c.plan);
  }
}

TEST(PlanSearch, RankedWithinLimitsMemoryAndRules) {
  const SearchOptions wanted = options();
  const SearchResult& result = usual();
  ASSERT_GT(result.ranked.size(), 50u);
  double before = std::numeric_limits<double>::infinity();
  for (const DeploymentCandidate& c : result.ranked) {
    EXPECT_LE(c.tokens_per_second_per_device, before);
    before = c.tokens_per_second_per_device;
    EXPECT_LE(c.ttft_seconds, wanted.ttft_limit_seconds);
    EXPECT_LE(c.tpot_seconds, wanted.tpot_limit_seconds);
    EXPECT_LE(c.memory_bytes, h200().memory_bytes);
    ServingLoad load = wanted.load;
    load.concurrency = c.concurrency;
    load.num_drafts = c.num_drafts;
    EXPECT_EQ(c.memory_bytes, deployment_memory_bytes({flash(), c.plan}, load, h200()))
        << "of the longest replies, and prefill";
    EXPECT_TRUE(violations(c.plan, flash().config).empty());
    EXPECT_EQ(c.num_instances * c.plan.num_devices, wanted.num_devices);
    EXPECT_LE(c.concurrency, wanted.max_concurrency);
    EXPECT_LE(c.num_drafts, wanted.max_drafts);
    EXPECT_NEAR(c.tokens_per_second_per_user * c.tpot_seconds, 1, 1e-9);
  }
}

TEST(PlanSearch, NothingIsBetterInBothThanTheFront) {
  const SearchResult& result = usual();
  ASSERT_GT(result.pareto.size(), 2u);
  const auto better = [](const DeploymentCandidate& a, const DeploymentCandidate& b) {
    return a.tokens_per_second_per_device >= b.tokens_per_second_per_device &&
           a.tokens_per_second_per_user >= b.tokens_per_second_per_user &&
           (a.tokens_per_second_per_device > b.tokens_per_second_per_device ||
            a.tokens_per_second_per_user > b.tokens_per_second_per_user);
  };
  for (const DeploymentCandidate& front : result.pareto) {
    for (const DeploymentCandidate& other : result.ranked)
      EXPECT_FALSE(better(other, front)) << to_text(other.plan);
  }
  // And whatever is not on it is beaten, or equalled, by something on it.
  for (const DeploymentCandidate& other : result.ranked) {
    EXPECT_TRUE(std::ranges::any_of(result.pareto, [&](const DeploymentCandidate& front) {
      return front.tokens_per_second_per_device >= other.tokens_per_second_per_device &&
             front.tokens_per_second_per_user >= other.tokens_per_second_per_user;
    }));
  }
}

TEST(PlanSearch, ThreadsDoNotMatter) {
  SearchOptions wanted = options();
  wanted.disaggregate = true;
  wanted.max_concurrency = 16;
  const SearchResult one = search(wanted, 1), three = search(wanted, 3);
  expect_equal(one.ranked, three.ranked);
  expect_equal(one.pareto, three.pareto);
  EXPECT_EQ(one.excluded, three.excluded);
  EXPECT_EQ(one.num_evaluated, three.num_evaluated);
}

TEST(PlanSearch, SaysHowManyPlansAreDone) {
  SearchOptions wanted = options();
  wanted.max_concurrency = 1;
  std::vector<std::int64_t> seen;
  std::int64_t total = 0;
  wanted.on_plan = [&](std::int64_t done, std::int64_t all) {
    seen.push_back(done);
    total = all;
  };
  (void)search(wanted, 3);
  ASSERT_EQ(std::ssize(seen), total);
  EXPECT_TRUE(std::ranges::is_sorted(seen));
  EXPECT_EQ(seen.back(), total);
}

TEST(PlanSearch, LimitsThatNothingMeetsGiveReasons) {
  SearchOptions wanted = options();
  wanted.tpot_limit_seconds = 1e-6;
  SearchResult result = search(wanted);
  EXPECT_TRUE(result.ranked.empty());
  EXPECT_TRUE(result.pareto.empty());
  EXPECT_GT(result.excluded["time per token above the limit"], 0);

  wanted = options();
  wanted.ttft_limit_seconds = 1e-6;
  EXPECT_GT(search(wanted).excluded["first token after the limit"], 0);

  DeviceProfile small = h200();
  small.memory_bytes = 8'000'000'000;
  result = search(options(), 2, small);
  EXPECT_TRUE(result.ranked.empty());
  EXPECT_GT(result.excluded["memory does not suffice"], 0);
}

TEST(PlanSearch, TighterLimitsNeverGiveMore) {
  SearchOptions wanted = options();
  const SearchResult& loose = usual();
  wanted.tpot_limit_seconds = 0.005;
  const SearchResult tight = search(wanted);
  ASSERT_FALSE(tight.ranked.empty());
  EXPECT_LT(tight.ranked.size(), loose.ranked.size());
  EXPECT_LE(tight.ranked.front().tokens_per_second_per_device,
            loose.ranked.front().tokens_per_second_per_device);
}

TEST(PlanSearch, InstancesThatPrefillApartShareTheDevices) {
  SearchOptions wanted = options();
  wanted.disaggregate = true;
  const SearchResult result = search(wanted);
  std::int64_t apart = 0;
  for (const DeploymentCandidate& c : result.ranked) {
    if (!c.prefill_plan) continue;
    ++apart;
    EXPECT_TRUE(violations(*c.prefill_plan, flash().config).empty());
    EXPECT_GE(c.num_prefill_instances, 1);
    EXPECT_GE(c.num_instances, 1);
    EXPECT_LE(c.num_instances * c.plan.num_devices + c.num_prefill_instances * c.prefill_plan->num_devices,
              wanted.num_devices);
    EXPECT_LE(c.ttft_seconds, wanted.ttft_limit_seconds);
    EXPECT_LE(c.tpot_seconds, wanted.tpot_limit_seconds);
  }
  EXPECT_GT(apart, 0);
}

TEST(PlanSearch, OptionsThatMeanNothing) {
  ThreadPool pool(1);
  const auto expect_error = [&](auto change, const std::string& part) {
    SearchOptions wanted = options();
    change(wanted);
    try {
      static_cast<void>(search_plans(flash(), h200(), wanted, pool));
      ADD_FAILURE() << part;
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
    }
  };
  expect_error([](SearchOptions& o) { o.num_devices = 0; }, "‹number of devices› 0");
  expect_error([](SearchOptions& o) { o.num_devices = 1 << 20; }, "‹number of devices› 1048576");
  expect_error([](SearchOptions& o) { o.load.prompt_tokens = 0; }, "‹prompt tokens› 0");
  expect_error([](SearchOptions& o) { o.load.reply_tokens = -5; }, "‹reply tokens› -5");
  expect_error([](SearchOptions& o) { o.ttft_limit_seconds = -1; }, "limits");
  expect_error([](SearchOptions& o) { o.max_concurrency = 0; }, "‹concurrency› 0");
  expect_error([](SearchOptions& o) { o.load.prompt_tokens = 2'000'000; }, "‹prompt tokens› 2000000");
  expect_error([](SearchOptions& o) { o.load.draft_acceptance = {1.5}; }, "‹draft acceptance› 1.5");
  expect_error([](SearchOptions& o) { o.max_concurrency = std::int64_t{1} << 40; }, "‹concurrency›");
  expect_error([](SearchOptions& o) { o.load.bounded_replay = 128; },
               "‹bounded replay›: this model has no decoder half");
}

TEST(LegalPlans, EachOnceAndEveryRefusalCounted) {
  std::map<std::string, std::int64_t> excluded;
  const std::vector<ParallelPlan> plans = legal_plans(flash().config, 48, excluded);
  for (std::size_t i = 0; i < plans.size(); ++i) {
    EXPECT_TRUE(violations(plans[i], flash().config).empty());
    for (std::size_t j = 0; j < i; ++j) EXPECT_FALSE(plans[i] == plans[j]) << to_text(plans[i]);
  }
  EXPECT_FALSE(plans.empty());
  EXPECT_FALSE(excluded.empty());
}

}  // namespace
}  // namespace baleen
