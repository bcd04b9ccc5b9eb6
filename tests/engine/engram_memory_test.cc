// Where tables of n-grams go on machines of several sizes, counted before anything is loaded.
#include "engine/engram_memory.h"

#include <gtest/gtest.h>

#include "engram/engram_store.h"
#include "tests/support/v41_headers.h"

namespace baleen {
namespace {

constexpr std::int64_t kGigabyte = 1'000'000'000;
constexpr std::int64_t kTables = 202'758'032'400;

class PlannedEngram : public testing::Test {
 protected:
  /// Of weights that take so much.
  [[nodiscard]] MemoryPlan planned(std::int64_t weight_bytes) const {
    MemoryPlan plan;
    plan.weight_bytes = weight_bytes;
    plan_engram(plan, config_, options_);
    return plan;
  }

  ModelConfig config_ = parse_config(test::v41_config().dump(), "config.json");
  EngineOptions options_{.device = planned_gpu(), .max_batch_tokens = 8192};
};

TEST_F(PlannedEngram, AutoTakesTheNearestPlaceWithRoom) {
  // Rows of a step: two tables of 24 hashes, 8 bytes each; on disk with records of 272 bytes.
  constexpr std::int64_t kRows = 8192 * 48;
  MemoryPlan plan = planned(300 * kGigabyte);
  EXPECT_EQ(plan.engram_place, EngramPlace::kDisk);
  EXPECT_EQ(plan.engram_bytes, kRows * (8 + 272));
  EXPECT_EQ(plan.total_bytes(), 300 * kGigabyte + plan.engram_bytes);

  EXPECT_EQ(place_engram(plan, config_, options_, 503 * kGigabyte, 0), std::nullopt);
  EXPECT_EQ(plan.engram_place, EngramPlace::kDevice);
  EXPECT_EQ(plan.engram_bytes, kRows * 8 + kTables);
  EXPECT_EQ(plan.host_engram_bytes, kRows * 8);

  plan = planned(300 * kGigabyte);
  EXPECT_EQ(place_engram(plan, config_, options_, 502 * kGigabyte, 512 * kGigabyte), std::nullopt);
  EXPECT_EQ(plan.engram_place, EngramPlace::kHost);
  EXPECT_EQ(plan.engram_bytes, kRows * 8);
  EXPECT_EQ(plan.host_engram_bytes, kRows * 8 + kTables);

  plan = planned(300 * kGigabyte);
  EXPECT_EQ(place_engram(plan, config_, options_, 320 * kGigabyte, 200 * kGigabyte), std::nullopt);
  EXPECT_EQ(plan.engram_place, EngramPlace::kDisk);
  EXPECT_EQ(plan.host_engram_bytes, kRows * (8 + 272));
  EXPECT_EQ(plan.engram_table_bytes, kTables);
}

TEST_F(PlannedEngram, TablesThatAreAskedForOnTheGpuComeBeforeExperts) {
  options_.engram = EngramWish::kGpu;
  MemoryPlan plan = planned(300 * kGigabyte);
  EXPECT_EQ(plan.engram_place, EngramPlace::kDevice);
  EXPECT_GT(plan.total_bytes(), 502 * kGigabyte);  // what experts are left out by
  const auto failed = place_engram(plan, config_, options_, 400 * kGigabyte, 900 * kGigabyte);
  ASSERT_TRUE(failed);
  EXPECT_NE(failed->message.find("the Engram tables take 202.76 GB, where 100.00 GB of the GPU's memory"),
            std::string::npos)
      << failed->message;
  EXPECT_EQ(plan.engram_place, EngramPlace::kDevice);
}

TEST_F(PlannedEngram, ACpuMapsTheFileOrTakesACopy) {
  options_.device = {};
  MemoryPlan plan = planned(0);
  EXPECT_EQ(place_engram(plan, config_, options_, 64 * kGigabyte, 64 * kGigabyte), std::nullopt);
  EXPECT_EQ(plan.engram_place, EngramPlace::kMapped);
  EXPECT_EQ(plan.engram_bytes, 2 * 8192 * 48 * 8);
  EXPECT_EQ(plan.host_engram_bytes, 0);
  options_.engram = EngramWish::kHost;
  plan = planned(0);
  EXPECT_EQ(place_engram(plan, config_, options_, 400 * kGigabyte, 400 * kGigabyte), std::nullopt);
  EXPECT_EQ(plan.engram_bytes, 2 * 8192 * 48 * 8 + kTables);
  EXPECT_TRUE(place_engram(plan, config_, options_, 64 * kGigabyte, 64 * kGigabyte));
}

TEST_F(PlannedEngram, OtherModelsAndStagesHaveNone) {
  MemoryPlan plan;
  config_.engram->layer_ids = {39};
  const ParallelPlan two_stages = resolved(ParallelPlan{.num_devices = 2, .pp = 2}, config_);
  const RankConfig first = rank_config(config_, two_stages, stage_of(config_, two_stages, 0));
  plan_engram(plan, first, options_);
  EXPECT_EQ(plan.engram_place, std::nullopt);
  config_.engram.reset();
  plan_engram(plan, config_, options_);
  EXPECT_EQ(plan.engram_place, std::nullopt);
  EXPECT_EQ(place_engram(plan, config_, options_, 0, 0), std::nullopt);
  EXPECT_EQ(plan.total_bytes(), 0);
  EXPECT_EQ(to_text(plan).find("n-grams"), std::string::npos);
}

TEST_F(PlannedEngram, IsALineOfThePlan) {
  MemoryPlan plan = planned(0);
  EXPECT_NE(
      to_text(plan).find("n-grams           110.1 MB  (tables of 202.76 GB on disk, of which the rows of "
                         "a step are read before it)\n"),
      std::string::npos)
      << to_text(plan);
  ASSERT_EQ(place_engram(plan, config_, options_, 0, 300 * kGigabyte), std::nullopt);
  EXPECT_NE(
      to_text(plan).find("n-grams             3.1 MB  (tables of 202.76 GB in the host's memory, pinned)\n"),
      std::string::npos)
      << to_text(plan);
}

}  // namespace
}  // namespace baleen
