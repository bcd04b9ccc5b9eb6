#include "trainer/post/policy_group.h"

#include <gtest/gtest.h>

namespace baleen {
namespace {

TEST(PolicyGroup, AdvantagesAreDifferencesFromTheMean) {
  const std::vector<double> rewards{1, 0, 0, 1};
  EXPECT_EQ(advantages(rewards, false), (std::vector<double>{0.5, -0.5, -0.5, 0.5}));
  EXPECT_EQ(advantages(rewards, true), (std::vector<double>{1, -1, -1, 1}));
  EXPECT_EQ(advantages(std::vector<double>{2, 2}, true), (std::vector<double>{0, 0}));
  // 1.2 * 6 / 6 is not 1.2.
  EXPECT_EQ(advantages(std::vector<double>(6, 1.2), false), std::vector<double>(6, 0.0));
}

TEST(PolicyGroup, RepliesAreTheTargets) {
  const std::vector<TokenId> prompt{0, 5};
  const std::vector<Rollout> rollouts{{{7, 1}, {-1, -1}, true}, {{8}, {-1}, false}};
  const TrainingBatch batch = rollout_batch(prompt, rollouts);
  EXPECT_EQ(batch.tokens, (std::vector<TokenId>{0, 5, 7, 1, 0, 5, 8}));
  EXPECT_EQ(batch.is_target, (std::vector<std::uint8_t>{0, 0, 1, 1, 0, 0, 1}));
  ASSERT_EQ(batch.documents.size(), 2U);
  EXPECT_EQ(batch.documents[1].begin, 4);
  EXPECT_EQ(batch.num_global_targets, 1);
}

TEST(PolicyGroup, ASequenceThatThePolicyLeftAloneIsMaskedWhereItsAdvantageIsNegative) {
  const GrpoConfig config{.mask_threshold = 0.1};
  const std::vector<Rollout> rollouts{{{7, 1}, {-1, -1}, true}, {{8, 1}, {-1, -1}, true}};
  const std::vector<double> advantage{0.5, -0.5}, far{-1.3, -1, -1.3, -1}, near{-1.1, -1, -1.1, -1};
  const PolicyTargets masked = sampled_targets(config, rollouts, advantage, far, {}, 2);
  EXPECT_EQ(masked.num_masked, 1);
  EXPECT_EQ(masked.targets[0].advantage, 0.5);
  EXPECT_EQ(masked.targets[2].advantage, 0);
  EXPECT_EQ(masked.targets[3].weight, 0.25);
  EXPECT_EQ(sampled_targets(config, rollouts, advantage, near, {}, 2).num_masked, 0);
}

}  // namespace
}  // namespace baleen
