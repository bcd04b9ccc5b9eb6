// The plan for a machine whose user names none.

#include "simulator/search/recommended_plan.h"

#include <gtest/gtest.h>

#include <map>

#include "model/presets.h"
#include "simulator/search/plan_search.h"

namespace baleen {
namespace {

const SimulatedModel& all_of_flash() {
  static const SimulatedModel model{"flash", preset_config("flash"), {}};
  return model;
}
const DeviceProfile& datasheet_h200() { return *find_device_profile("h200"); }

PlanRequest request(std::int64_t num_devices, PlanGoal goal, std::int64_t concurrency = 1) {
  PlanRequest wanted{.num_devices = num_devices, .goal = goal};
  wanted.load.prompt_tokens = 2048;
  wanted.load.reply_tokens = 256;
  wanted.load.concurrency = concurrency;
  wanted.can_run = [](const ParallelPlan&) { return true; };
  return wanted;
}

TEST(RecommendedPlan, OfOneConversationHasTheShortestTimeOfAToken) {
  const PlanRequest wanted = request(2, PlanGoal::kOneConversation);
  const auto best = recommended_plan(all_of_flash(), datasheet_h200(), wanted);
  ASSERT_TRUE(best);
  std::map<std::string, std::int64_t> illegal;
  for (const std::int64_t count : {1, 2}) {
    for (const ParallelPlan& plan : legal_plans(all_of_flash().config, count, illegal)) {
      const DeploymentEstimate other =
          estimate_deployment(PlanRanks(all_of_flash(), plan), wanted.load, datasheet_h200());
      if (other.fits()) {
        EXPECT_GE(other.tpot_seconds, best->estimate.tpot_seconds) << to_text(plan);
      }
    }
  }
  EXPECT_LE(best->plan.num_devices, 2);
}

TEST(RecommendedPlan, OfManyRepliesHasTheMostTokensASecond) {
  const PlanRequest wanted = request(4, PlanGoal::kManyReplies, 64);
  const auto best = recommended_plan(all_of_flash(), datasheet_h200(), wanted);
  ASSERT_TRUE(best);
  std::map<std::string, std::int64_t> illegal;
  for (const ParallelPlan& plan : legal_plans(all_of_flash().config, 4, illegal)) {
    const DeploymentEstimate other =
        estimate_deployment(PlanRanks(all_of_flash(), plan), wanted.load, datasheet_h200());
    if (other.fits()) {
      EXPECT_LE(other.requests_per_second, best->estimate.requests_per_second) << to_text(plan);
    }
  }
  EXPECT_NE(best->reason.find("tokens/s with 64 sequences"), std::string::npos) << best->reason;
}

TEST(RecommendedPlan, OnlyWhatRanksRun) {
  PlanRequest wanted = request(4, PlanGoal::kManyReplies, 64);
  wanted.can_run = [](const ParallelPlan& plan) { return plan.pp == 4; };
  const auto best = recommended_plan(all_of_flash(), datasheet_h200(), wanted);
  ASSERT_TRUE(best);
  EXPECT_EQ(best->plan.pp, 4);
  wanted.can_run = [](const ParallelPlan&) { return false; };
  EXPECT_FALSE(recommended_plan(all_of_flash(), datasheet_h200(), wanted));
}

/// Messages cost such a model more than a second device saves.
TEST(RecommendedPlan, ASmallModelStaysOnOneDevice) {
  const SimulatedModel small{"tiny", preset_config("tiny-flash"), {}};
  PlanRequest wanted = request(4, PlanGoal::kOneConversation);
  wanted.load.prompt_tokens = 64;
  wanted.load.reply_tokens = 64;
  const auto best = recommended_plan(small, datasheet_h200(), wanted);
  ASSERT_TRUE(best);
  EXPECT_TRUE(best->plan.is_one_rank()) << to_text(best->plan);
}

/// Experts may lie in the host's memory, the rest of a model may not.
TEST(RecommendedPlan, NoneWhereNothingFits) {
  DeviceProfile small = datasheet_h200();
  small.memory_bytes = std::int64_t{1} << 30;
  EXPECT_FALSE(recommended_plan(all_of_flash(), small, request(2, PlanGoal::kOneConversation)));
}

}  // namespace
}  // namespace baleen
