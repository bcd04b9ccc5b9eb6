// Ranks on the GPUs of a machine, when no option names a device. GPUs are values here: none is used.

#include "app/machine_plan.h"

#include <gtest/gtest.h>

#include "model/presets.h"

namespace baleen {
namespace {

const SimulatedModel& simulated_flash() {
  static const SimulatedModel model{"flash", preset_config("flash"), {}};
  return model;
}

GpuGroup gpus(const std::string& name, int count) {
  GpuGroup group{.name = name};
  for (int index = 0; index < count; ++index) group.gpus.push_back(planned_gpu(index));
  return group;
}

EngineOptions on_a_gpu() { return {.device = planned_gpu()}; }

TEST(MachinePlan, TwoGpusHoldAllOfFlash) {
  EngineOptions options = on_a_gpu();
  const std::string line = place_on_gpus(options, simulated_flash(), {}, gpus("NVIDIA H200", 2));
  EXPECT_EQ(options.parallel.num_devices, 2);
  EXPECT_EQ(options.rank_devices.size(), 2u);
  EXPECT_NE(line.find("GPUs 0,1"), std::string::npos) << line;
  EXPECT_NE(line.find("ms a token"), std::string::npos) << line;
}

TEST(MachinePlan, ManyRepliesAreAnotherGoal) {
  EngineOptions options = on_a_gpu();
  const std::string line =
      place_on_gpus(options, simulated_flash(), {PlanGoal::kManyReplies, 64}, gpus("NVIDIA H200", 2));
  EXPECT_EQ(options.parallel.num_devices, 2);
  EXPECT_NE(line.find("tokens/s with 64 sequences"), std::string::npos) << line;
}

TEST(MachinePlan, OneGpuNeedsNoPlan) {
  EngineOptions options = on_a_gpu();
  EXPECT_EQ(place_on_gpus(options, simulated_flash(), {}, gpus("NVIDIA H200", 1)), "");
  EXPECT_TRUE(options.parallel.is_one_rank());
  EXPECT_TRUE(options.rank_devices.empty());
}

TEST(MachinePlan, AGpuWithoutAProfile) {
  EngineOptions options = on_a_gpu();
  const std::string line = place_on_gpus(options, simulated_flash(), {}, gpus("NVIDIA X900", 2));
  EXPECT_TRUE(options.parallel.is_one_rank());
  EXPECT_NE(line.find("no device profile is of a NVIDIA X900"), std::string::npos) << line;
}

TEST(MachinePlan, AGivenPlanTakesAsManyGpusAsItHasRanks) {
  EngineOptions options{.parallel = {.tp = 2}};
  const std::string line = place_on_gpus(options, simulated_flash(), {}, gpus("NVIDIA H200", 4));
  EXPECT_EQ(options.rank_devices.size(), 2u) << line;
  EXPECT_FALSE(options.device.is_cpu());
}

TEST(MachinePlan, AGivenPlanOfMoreRanksThanGpusRunsOnTheCpu) {
  EngineOptions options{.parallel = {.tp = 4}};
  const std::string line = place_on_gpus(options, simulated_flash(), {}, gpus("NVIDIA H200", 2));
  EXPECT_TRUE(options.rank_devices.empty());
  EXPECT_TRUE(options.device.is_cpu());
  EXPECT_NE(line.find("4 ranks run on the CPU"), std::string::npos) << line;
}

}  // namespace
}  // namespace baleen
