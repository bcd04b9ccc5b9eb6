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

constexpr std::int64_t kGiB = std::int64_t{1} << 30;

std::vector<SeparateGpu> separate(const std::vector<std::pair<std::string, std::int64_t>>& cards) {
  std::vector<SeparateGpu> gpus;
  const GpuArchitecture& row = architecture_by_name(gpu_architectures(), "sm80");
  for (const auto& [name, free_bytes] : cards)
    gpus.push_back({{&row, static_cast<int>(gpus.size())}, name, free_bytes});
  return gpus;
}

EngineOptions with_small_context(const DeviceChoice& device) {
  return {.device = device, .cache_tokens = 8192};
}

TEST(MachinePlan, CardsThatDoNotReachEachOtherAreAPipeline) {
  const auto cards =
      separate({{"NVIDIA GeForce RTX 4090", 23 * kGiB}, {"NVIDIA GeForce RTX 3090", 18 * kGiB}});
  EngineOptions options = with_small_context(cards.front().choice);
  const std::string line = place_in_stages(options, simulated_flash(), cards);
  EXPECT_EQ(options.parallel.pp, 2) << line;
  ASSERT_EQ(options.parallel.stage_layers.size(), 2u);
  EXPECT_GT(options.parallel.stage_layers.front(), options.parallel.stage_layers.back());
  EXPECT_EQ(options.messages, GpuMessages::kHostMemory);
  EXPECT_EQ(options.rank_devices.size(), 2u);
  EXPECT_NE(line.find("GPUs 0,1, which do not reach each other's memory"), std::string::npos) << line;
  // What it says can be run.
  EXPECT_EQ(resolved(options, simulated_flash().config).messages, GpuMessages::kHostMemory);
}

TEST(MachinePlan, ACardThatHoldsTheModelRunsItAlone) {
  const SimulatedModel tiny{"tiny-flash", preset_config("tiny-flash"), {}};
  const auto cards =
      separate({{"NVIDIA GeForce RTX 3090", kGiB / 2}, {"NVIDIA GeForce RTX 3090", 23 * kGiB}});
  EngineOptions options = with_small_context(cards.front().choice);
  const std::string line = place_in_stages(options, tiny, cards);
  EXPECT_NE(line.find("GPU 1 alone"), std::string::npos) << line;
  EXPECT_TRUE(options.parallel.is_one_rank());
  EXPECT_EQ(options.device.index, 1);
}

TEST(MachinePlan, SeparateCardsWithoutAProfile) {
  const auto cards = separate({{"NVIDIA GeForce RTX 4090", 23 * kGiB}, {"NVIDIA X900", 23 * kGiB}});
  EngineOptions options = with_small_context(cards.front().choice);
  const std::string line = place_in_stages(options, simulated_flash(), cards);
  EXPECT_NE(line.find("no device profile is of a NVIDIA X900"), std::string::npos) << line;
  EXPECT_TRUE(options.parallel.is_one_rank());
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
