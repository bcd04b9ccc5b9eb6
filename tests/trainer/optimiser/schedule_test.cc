#include "trainer/optimiser/schedule.h"

#include <gtest/gtest.h>

namespace baleen {
namespace {

TrainConfig with_schedule(std::int64_t steps, std::int64_t warmup, std::int64_t decay) {
  TrainConfig config;
  config.run.steps = steps;
  config.schedule = {
      .learning_rate = 1.0, .final_learning_rate = 0.1, .warmup_steps = warmup, .decay_steps = decay};
  return config;
}

TEST(Schedule, RisesStaysAndFalls) {
  const TrainConfig config = with_schedule(100, 10, 20);
  EXPECT_DOUBLE_EQ(learning_rate_at(config, 0), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate_at(config, 4), 0.5);
  EXPECT_DOUBLE_EQ(learning_rate_at(config, 9), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate_at(config, 10), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate_at(config, 79), 1.0);
  EXPECT_LT(learning_rate_at(config, 80), 1.0);
  EXPECT_NEAR(learning_rate_at(config, 89), 0.55, 1e-12);  // half of the cosine
  EXPECT_DOUBLE_EQ(learning_rate_at(config, 99), 0.1);
  EXPECT_DOUBLE_EQ(learning_rate_at(config, 1000), 0.1);
}

TEST(Schedule, WithoutWarmUpAndDecayIsConstant) {
  const TrainConfig config = with_schedule(5, 0, 0);
  for (std::int64_t step = 0; step < 5; ++step) EXPECT_DOUBLE_EQ(learning_rate_at(config, step), 1.0);
  EXPECT_DOUBLE_EQ(mtp_weight_at(config, 4), 0.3);
}

TEST(Schedule, TheMtpWeightFallsWithTheDecay) {
  const TrainConfig config = with_schedule(100, 10, 20);
  EXPECT_DOUBLE_EQ(mtp_weight_at(config, 79), 0.3);
  EXPECT_DOUBLE_EQ(mtp_weight_at(config, 80), 0.1);
}

TEST(Schedule, IndexersAreIdleThenAloneThenChoose) {
  TrainConfig config = with_schedule(100, 0, 0);
  config.indexer = {.dense_steps = 3, .warmup_steps = 2};
  EXPECT_EQ(indexer_stage_at(config, 2), IndexerStage::kIdle);
  EXPECT_EQ(indexer_stage_at(config, 3), IndexerStage::kWarmUp);
  EXPECT_EQ(indexer_stage_at(config, 4), IndexerStage::kWarmUp);
  EXPECT_EQ(indexer_stage_at(config, 5), IndexerStage::kSparse);
}

}  // namespace
}  // namespace baleen
