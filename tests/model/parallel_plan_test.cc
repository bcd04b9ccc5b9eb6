#include "model/parallel_plan.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "model/presets.h"
#include "model/rank_layout.h"

namespace baleen {
namespace {

const ModelConfig& flash() {
  static const ModelConfig config = preset_config("flash");
  return config;
}

std::string only_violation(ParallelPlan plan) {
  const std::vector<std::string> found = violations(resolved(plan, flash()), flash());
  EXPECT_EQ(found.size(), 1U);
  return found.empty() ? "" : found.front();
}

TEST(ParallelPlan, FillsWhatIsNotSaid) {
  const ParallelPlan plan = resolved({.num_devices = 8, .tp = 4}, flash());
  EXPECT_EQ(plan.dp, 2);
  EXPECT_EQ(plan.ep, 8);
  EXPECT_EQ(plan.moe_tp, 1);
  EXPECT_EQ(plan.o_proj_tp, 4);
  EXPECT_EQ(plan.pp, 1);
  EXPECT_TRUE(violations(plan, flash()).empty());
  EXPECT_EQ(resolved({.num_devices = 16, .tp = 16}, flash()).o_proj_tp, 8) << "no more than groups";
  EXPECT_EQ(resolved({.num_devices = 8, .tp = 8, .moe_tp = 4}, flash()).ep, 2);
  EXPECT_EQ(resolved({.ep = 8}, flash()).dp, 8) << "as many groups as experts want ranks";
  EXPECT_EQ(resolved({.tp = 2, .ep = 8}, flash()).dp, 4);
  const ParallelPlan context = resolved({.cp = 4, .ep = 8}, flash());
  EXPECT_EQ(context.num_devices, 8);
  EXPECT_EQ(context.dp, 2);
  EXPECT_EQ(context.o_proj_tp, 1);
  EXPECT_EQ(context.lmhead_tp, 4);
  EXPECT_EQ(expert_transport(resolved({.num_devices = 2, .cp = 2}, flash())).name, "all-to-all");
  EXPECT_EQ(to_text(context), "8 devices: cp 4, dp 2, ep 8");
}

TEST(ParallelPlan, GpusKeepExpertsWholeUnlessThePlanSplitsThem) {
  EXPECT_EQ(with_experts_of_gpus({.num_devices = 2, .tp = 2}).shared_tp, 1);
  EXPECT_EQ(with_experts_of_gpus({.num_devices = 2, .tp = 2, .shared_tp = 2}).shared_tp, 2);
  const ParallelPlan split = resolved(with_experts_of_gpus({.tp = 2, .moe_tp = 2}), flash());
  EXPECT_EQ(split.shared_tp, 0);
  EXPECT_EQ(split.ep, 1);
  EXPECT_EQ(rank_config(flash(), split, even_stage(flash(), 1, 0)).share().shared_tp, 2);
}

TEST(ParallelPlan, EveryRuleHasASentence) {
  EXPECT_NE(only_violation({.num_devices = 8, .tp = 2, .dp = 2, .ep = 4}).find("‹data parallelism› 4"),
            std::string::npos);
  EXPECT_NE(only_violation({.num_devices = 3, .tp = 1, .ep = 1, .moe_tp = 3, .o_proj_tp = 1})
                .find("‹split of experts› 3"),
            std::string::npos);
  EXPECT_NE(only_violation({.num_devices = 16, .tp = 16, .o_proj_tp = 16}).find("8 groups"),
            std::string::npos);
  EXPECT_NE(only_violation({.num_devices = 6, .dp = 6, .o_proj_tp = 1}).find("‹copies of experts› 2"),
            std::string::npos);
  EXPECT_NE(only_violation({.num_devices = 8, .dp = 8, .ep = 3, .moe_tp = 1, .redundant_experts = 2})
                .find("ranks of a stage"),
            std::string::npos);
  EXPECT_NE(only_violation({.num_devices = 44, .ep = 1, .pp = 44}).find("43 layers"), std::string::npos);
  EXPECT_NE(only_violation({.num_devices = 8, .tp = 8, .lmhead_tp = 3}).find("‹split of the vocabulary›"),
            std::string::npos);
}

TEST(ParallelPlan, ContextParallelRanksHaveWholeAttention) {
  EXPECT_NE(only_violation({.num_devices = 8, .tp = 2, .cp = 4, .o_proj_tp = 1})
                .find("‹context parallelism› 8 alone"),
            std::string::npos);
  EXPECT_NE(
      only_violation({.num_devices = 4, .cp = 4, .o_proj_tp = 2}).find("‹split of output projections› 1"),
      std::string::npos);
  EXPECT_NE(
      only_violation({.num_devices = 4, .cp = 4, .sequence_parallel = true}).find("‹sequence parallelism›"),
      std::string::npos);
  EXPECT_NE(only_violation({.num_devices = 6, .cp = 4, .dp = 1, .ep = 4, .moe_tp = 1}).find("dp 1 x cp 4"),
            std::string::npos);
}

TEST(ParallelPlan, AllBrokenRulesComeAtOnce) {
  const ParallelPlan plan = resolved({.num_devices = 4, .tp = 3}, flash());
  EXPECT_EQ(violations(plan, flash()).size(), 4U) << "world, heads, experts, output groups";
  EXPECT_THROW(validate(plan, flash()), Error);
  EXPECT_FALSE(violations({.num_devices = -1,
                           .tp = 1,
                           .dp = 1,
                           .ep = 1,
                           .pp = 1,
                           .moe_tp = 1,
                           .o_proj_tp = 1,
                           .lmhead_tp = 1},
                          flash())
                   .empty());
}

}  // namespace
}  // namespace baleen
