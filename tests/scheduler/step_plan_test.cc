#include "scheduler/step_plan.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <numeric>

namespace baleen {
namespace {

using Wants = std::vector<std::int64_t>;

Wants split(std::int64_t budget, const Wants& wants) { return split_evenly(budget, wants); }

TEST(SplitEvenly, LeftoversOfTheSmallGoToTheLarge) {
  EXPECT_EQ(split(100, {1000}), (Wants{100}));
  EXPECT_EQ(split(100, {1000, 10, 1000}), (Wants{45, 10, 45}));
  EXPECT_EQ(split(100, {30, 30}), (Wants{30, 30}));
  EXPECT_EQ(split(2, {9, 9, 9}), (Wants{1, 1, 0}));
  EXPECT_EQ(split(0, {9}), (Wants{0}));
  EXPECT_EQ(split(-3, {9}), (Wants{0}));
  EXPECT_EQ(split(7, {}), Wants{});
}

TEST(SplitEvenly, WastesNothingAndFavoursNobody) {
  EXPECT_TRUE(rc::check([] {
    const auto wants = *rc::gen::container<Wants>(rc::gen::inRange<std::int64_t>(1, 500));
    const auto budget = *rc::gen::inRange<std::int64_t>(0, 3000);
    const Wants grants = split(budget, wants);
    const std::int64_t wanted = std::accumulate(wants.begin(), wants.end(), std::int64_t{0});
    RC_ASSERT(std::accumulate(grants.begin(), grants.end(), std::int64_t{0}) == std::min(budget, wanted));
    for (std::size_t i = 0; i < wants.size(); ++i) {
      RC_ASSERT(grants[i] >= 0 && grants[i] <= wants[i]);
      for (std::size_t j = 0; j < wants.size(); ++j) {
        if (grants[i] < wants[i]) RC_ASSERT(grants[j] <= grants[i] + 1);  // one for the remainder
      }
    }
  }));
}

constexpr StepBudget kBudget{.max_batch_tokens = 512, .max_logit_rows = 16, .prefill_share_tokens = 256};

TEST(StepPlan, PromptsTakeTheWholeStepWhenNobodyDecodes) {
  const auto shares = plan_step({{{.start = 0, .remaining = 5000}}}, kBudget);
  EXPECT_EQ(shares[0].num_tokens, 512);
}

TEST(StepPlan, PromptsTakeTheirShareWhileOthersDecode) {
  const StepDemand demands[] = {
      {.start = 900, .remaining = 1}, {.start = 0, .remaining = 5000}, {.start = 0, .remaining = 40}};
  const auto shares = plan_step(demands, kBudget);
  EXPECT_EQ(shares[0].num_tokens, 1);
  EXPECT_EQ(shares[1].num_tokens, 216);
  EXPECT_EQ(shares[2].num_tokens, 40);
}

TEST(StepPlan, ChunksEndWithAPageWhereThatCostsNoStep) {
  // 1000 tokens are two steps of 512 either way: 512 + 488.
  EXPECT_EQ(plan_step({{{.start = 0, .remaining = 1000}}}, kBudget)[0].num_tokens, 512);
  // From 100, 512 tokens would end at 612; 412 end with a page, and what is left is one step still.
  EXPECT_EQ(plan_step({{{.start = 100, .remaining = 900}}}, kBudget)[0].num_tokens, 412);
  // But with 1000 left a second step would not do.
  EXPECT_EQ(plan_step({{{.start = 100, .remaining = 1000}}}, kBudget)[0].num_tokens, 512);
  // The last chunk goes to the end.
  EXPECT_EQ(plan_step({{{.start = 100, .remaining = 500}}}, kBudget)[0].num_tokens, 500);
}

TEST(StepPlan, DraftsTakeWhatIsLeft) {
  const StepDemand drafter{.start = 9, .remaining = 1, .most_drafts = 3};
  const std::vector<StepDemand> two(2, drafter);
  EXPECT_EQ(plan_step(two, kBudget)[1].num_drafts, 3);
  EXPECT_EQ(plan_step(two, {.max_batch_tokens = 5, .max_logit_rows = 16})[0].num_drafts, 1);
  EXPECT_EQ(plan_step(two, {.max_batch_tokens = 5, .max_logit_rows = 16})[1].num_drafts, 2);
  EXPECT_EQ(plan_step(two, {.max_batch_tokens = 512, .max_logit_rows = 2})[0].num_drafts, 0);
}

TEST(StepPlan, KeepsEveryLimit) {
  EXPECT_TRUE(rc::check([] {
    StepBudget budget;
    budget.max_batch_tokens = *rc::gen::inRange<std::int64_t>(1, 2000);
    budget.max_logit_rows = *rc::gen::inRange<std::int64_t>(1, 40);
    budget.prefill_share_tokens = *rc::gen::inRange<std::int64_t>(1, 2000);
    const auto most = std::min(budget.max_batch_tokens, budget.max_logit_rows);
    std::vector<StepDemand> demands(*rc::gen::inRange<std::size_t>(0, static_cast<std::size_t>(most) + 1));
    for (StepDemand& demand : demands) {
      demand.start = *rc::gen::inRange<std::int64_t>(0, 3000);
      if (*rc::gen::arbitrary<bool>()) demand.remaining = *rc::gen::inRange<std::int64_t>(2, 3000);
      if (demand.remaining == 1) demand.most_drafts = *rc::gen::inRange<std::int64_t>(0, 5);
    }
    const auto shares = plan_step(demands, budget);
    std::int64_t tokens = 0, rows = 0, prompt_tokens = 0, num_decoding = 0;
    bool some_prompt = false, prompt_served = false;
    for (std::size_t i = 0; i < demands.size(); ++i) {
      const StepShare share = shares[i];
      RC_ASSERT(share.num_tokens >= 0 && share.num_tokens <= demands[i].remaining);
      RC_ASSERT(share.num_drafts >= 0 && share.num_drafts <= demands[i].most_drafts);
      tokens += share.num_tokens + share.num_drafts;
      rows += share.num_drafts + 1;
      if (demands[i].remaining == 1) {
        RC_ASSERT(share.num_tokens == 1);
        ++num_decoding;
      } else {
        prompt_tokens += share.num_tokens;
        if (!some_prompt) prompt_served = share.num_tokens > 0;  // the most important one
        some_prompt = true;
      }
    }
    RC_ASSERT(tokens <= budget.max_batch_tokens);
    RC_ASSERT(rows <= budget.max_logit_rows);
    if (num_decoding > 0) RC_ASSERT(prompt_tokens <= budget.prefill_share_tokens);
    RC_ASSERT(prompt_served == some_prompt);
  }));
}

}  // namespace
}  // namespace baleen
