// Experts outside the device's memory, shared out between copies and the host's cores: the formula by hand,
// its best split against all of them, and what it says of a step of Flash.

#include "simulator/cost/expert_wait.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "model/presets.h"
#include "simulator/cost/step_estimate.h"

namespace baleen {
namespace {

/// A Xeon of 16 cores and PCIe 5, and one of Flash's experts.
constexpr std::int64_t kExpertBytes = 13'369'344;
MemoryLevel xeon() {
  return {.name = "host",
          .bytes_per_second = 54e9,
          .kernel_bytes_per_second = 54e9,
          .compute = {.bytes_per_second = 83e9,
                      .beside_copies_bytes_per_second = 66e9,
                      .copies_beside_bytes_per_second = 47e9}};
}
constexpr double kBytes = kExpertBytes;

TEST(ExpertWait, TheSlowerOfBothSidesCounts) {
  const ExpertWait wait(kExpertBytes, xeon(), {}, true);
  EXPECT_EQ(wait.seconds(0, 0, 1), 0);
  // One: the cores read it sooner than it is copied.
  EXPECT_EQ(wait.num_computed(1, 0, 1), 1);
  EXPECT_DOUBLE_EQ(wait.seconds(1, 0, 1), kBytes / 83e9);
  // Two: one each, and the link is slower; two by the cores alone would take 2 / 83.
  EXPECT_EQ(wait.num_computed(2, 0, 1), 1);
  EXPECT_DOUBLE_EQ(wait.seconds(2, 0, 1), kBytes / 47e9);
  // Five: three against two.
  EXPECT_EQ(wait.num_computed(5, 0, 1), 3);
  EXPECT_DOUBLE_EQ(wait.seconds(5, 0, 1), 3 * kBytes / 66e9);
  // Those of docs/simulator.md.
  EXPECT_NEAR(wait.seconds(2, 0, 1), 284e-6, 1e-6);
  EXPECT_NEAR(wait.seconds(3, 0, 1), 405e-6, 1e-6);
  EXPECT_NEAR(wait.seconds(6, 0, 1), 810e-6, 1e-6);
  EXPECT_DOUBLE_EQ(wait.seconds(1.5, 0, 1), (wait.seconds(1, 0, 1) + wait.seconds(2, 0, 1)) / 2);
}

TEST(ExpertWait, NoSplitIsBetterThanTheOneThatIsTaken) {
  MemoryLevel host = xeon();
  host.compute.hand_over_seconds = 20e-6;
  host.compute.row_seconds = 15e-6;
  const ExpertWait wait(kExpertBytes, host, {}, true);
  for (const double rows : {1.0, 1.5, 7.0}) {
    for (std::int64_t n = 1; n <= 48; ++n) {
      double least = static_cast<double>(n) * kBytes / 54e9;
      for (std::int64_t c = 1; c <= n; ++c) {
        const double reads = kBytes / (c < n ? 66e9 : 83e9) + (rows - 1) * 15e-6;
        const double copies = static_cast<double>(n - c) * kBytes / 47e9;
        least = std::min(least, std::max(20e-6 + static_cast<double>(c) * reads, copies));
      }
      EXPECT_DOUBLE_EQ(wait.seconds(static_cast<double>(n), 0, rows), least) << n << " of " << rows;
    }
  }
}

TEST(ExpertWait, WithoutCoresAllAreCopied) {
  const ExpertWait copied(kExpertBytes, xeon(), {}, false);
  EXPECT_DOUBLE_EQ(copied.seconds(2.5, 0, 3), 2.5 * kBytes / 54e9);
  EXPECT_EQ(copied.num_computed(5, 0, 1), 0);
  MemoryLevel idle = xeon();
  idle.compute = {};
  EXPECT_DOUBLE_EQ(ExpertWait(kExpertBytes, idle, {}, true).seconds(4, 0, 1), 4 * kBytes / 54e9);
}

TEST(ExpertWait, ADiskIsReadOnceAndItsExpertsComputedOrCopied) {
  const MemoryLevel disk{.name = "disk", .bytes_per_second = 5e9, .kernel_bytes_per_second = 4e9};
  const ExpertWait copied(kExpertBytes, xeon(), disk, false), computed(kExpertBytes, xeon(), disk, true);
  EXPECT_DOUBLE_EQ(copied.seconds(1, 2, 1), kBytes / 54e9 + 2 * kBytes / 4e9);
  EXPECT_DOUBLE_EQ(computed.seconds(0, 2, 1), 2 * (kBytes / 4e9 + kBytes / 83e9));
  // While the disk is read, the link has time for all that lies on the host.
  EXPECT_EQ(computed.num_computed(3, 2, 1), 0);
}

/// Flash on an H100: more than half of the experts on the host.
TEST(ExpertWait, CoresShortenAStepAsTheFormulaSays) {
  const SimulatedModel flash{"flash", preset_config("flash"), {}};
  DeviceProfile h100 = *find_device_profile("h100");
  h100.memory_levels = {xeon()};
  const PlanRanks ranks(flash, resolved({.num_devices = 1}, flash.config));
  const Workload work{.context_length = 4096, .decode = true};
  const StepEstimate copied = estimate_step(ranks, work, h100);
  h100.computes_on_host = true;
  const StepEstimate shared = estimate_step(ranks, work, h100);
  const ExpertCounts& counts = shared.stages.front().memory.experts;
  const double away = 6 * counts.share_away();  // of a token's, in a layer
  ASSERT_GT(away, 2);
  ASSERT_LT(away, 4);
  const ExpertWait wait(kExpertBytes, xeon(), {}, true);
  EXPECT_NEAR(copied.seconds - shared.seconds, 43 * (away * kBytes / 54e9 - wait.seconds(away, 0, 1)),
              0.01 * (copied.seconds - shared.seconds));
  EXPECT_LT(wait.seconds(away, 0, 1), 0.75 * away * kBytes / 54e9);
  // A prompt streams all of them, as before.
  const Workload prompt{.query_length = 8192};
  EXPECT_EQ(estimate_step(ranks, prompt, h100).seconds, [&] {
    h100.computes_on_host = false;
    return estimate_step(ranks, prompt, h100).seconds;
  }());
}

/// Flash with 21.8 GB of weights on an H100 and the rest on its host, a Xeon of whose cores 15 computed an
/// expert in 125 us: 37.4 ms a step of one stream and 199 ms of eight, experts used evenly.
TEST(ExpertWait, MeasuredStepsArePredicted) {
  const SimulatedModel flash{"flash", preset_config("flash"), {}};
  DeviceProfile h100 = *find_device_profile("h100");
  h100.most_weight_bytes = 21'800'000'000;
  h100.computes_on_host = true;
  HostCompute& cores = h100.memory_levels.front().compute;
  const double ratio = kBytes / 125e-6 / cores.bytes_per_second;
  cores.bytes_per_second *= ratio;
  cores.beside_copies_bytes_per_second *= ratio;
  const PlanRanks ranks(flash, resolved({.num_devices = 1}, flash.config));
  const auto seconds = [&](std::int64_t streams, double guessed) {
    const Workload work{
        .num_queries = streams, .context_length = 1024, .decode = true, .guessed_experts = guessed};
    return estimate_step(ranks, work, h100).seconds;
  };
  EXPECT_NEAR(seconds(1, 0), 37.4e-3, 0.1 * 37.4e-3);
  EXPECT_NEAR(seconds(8, 0), 199e-3, 0.1 * 199e-3);
  EXPECT_LT(seconds(1, 1), seconds(1, 0)) << "what came ahead need not be waited for";
}

/// A card of 24 GB beside 32 GB of memory: most of Flash stays on disk.
TEST(ExpertWait, AStepThatReadsFromDiskIsPriced) {
  const SimulatedModel flash{"flash", preset_config("flash"), {}};
  DeviceProfile card = *find_device_profile("rtx-4090");
  card.memory_levels.front().bytes = 24'000'000'000;
  const PlanRanks ranks(flash, resolved({.num_devices = 1}, flash.config));
  const Workload work{.context_length = 1024, .decode = true};
  EXPECT_FALSE(estimate_step(ranks, work, card).fits()) << "nothing is known of a disk";
  card.memory_levels.push_back({.name = "disk", .bytes_per_second = 5e9, .kernel_bytes_per_second = 5e9});
  const StepEstimate step = estimate_step(ranks, work, card);
  EXPECT_TRUE(step.fits());
  const ExpertCounts& counts = step.stages.front().memory.experts;
  EXPECT_GT(counts.num_on_disk, counts.num_on_host);
  const double from_disk =
      43 * 6 * static_cast<double>(counts.num_on_disk) / static_cast<double>(counts.num_in_all());
  EXPECT_GT(step.seconds, from_disk * kBytes / 5e9);
  EXPECT_LT(step.seconds, 1.2 * from_disk * kBytes / 5e9);
  // A prompt reads each of them once.
  const Workload prompt{.query_length = 2048};
  EXPECT_NEAR(estimate_step(ranks, prompt, card).seconds,
              static_cast<double>(counts.num_on_disk) * kBytes / 5e9, 2);
}

}  // namespace
}  // namespace baleen
