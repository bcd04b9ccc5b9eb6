// How long a step waits for rows of n-grams, by where their tables lie.

#include "simulator/cost/engram_reads.h"

#include <gtest/gtest.h>

#include "model/presets.h"
#include "simulator/cost/step_estimate.h"

namespace baleen {
namespace {

constexpr double kRowsOfToken = 24, kRowBytes = 256 + 8;  // of one table
constexpr double kDiskRound = 96e-6;                      // of 48 reads

class EngramReadsTest : public testing::Test {
 protected:
  EngramReadsTest() {
    device_ = *find_device_profile("h200");
    device_.memory_levels.push_back(
        {.name = "disk", .bytes_per_second = 5e9, .kernel_bytes_per_second = 5e9});
  }
  [[nodiscard]] StepEstimate step(EngramWish wish, const Workload& workload) const {
    const ModelConfig config = preset_config("v41-flash");
    const SimulatedModel model{
        "v41-flash", config, {.dense = config.dense_format, .experts = config.expert_format}, wish};
    return estimate_step({model, resolved({.num_devices = 4, .tp = 4}, config)}, workload, device_);
  }
  /// Of both lookups.
  static double waited(const StepEstimate& estimate) {
    double seconds = 0;
    for (const OpEstimate& op : estimate.stages.front().ops)
      if (op.op.name == "engram_lookup") seconds += op.time.host_copy_seconds;
    return seconds;
  }

  DeviceProfile device_;
};

/// Two tables, 6,336 bytes of each, over PCIe: less than a launch.
TEST_F(EngramReadsTest, OneTokenFromTheHost) {
  const StepEstimate estimate = step(EngramWish::kHost, {.context_length = 4096, .decode = true});
  EXPECT_EQ(estimate.stages.front().memory.engram_place, EngramPlace::kHost);
  const double link = 2 * kRowsOfToken * kRowBytes / device_.memory_levels.front().kernel_bytes_per_second;
  EXPECT_GT(waited(estimate), 0);
  EXPECT_LE(waited(estimate), link);
}

/// Rows of either table are one round of reads.
TEST_F(EngramReadsTest, OneTokenFromADisk) {
  const StepEstimate host = step(EngramWish::kHost, {.context_length = 4096, .decode = true});
  const StepEstimate disk = step(EngramWish::kDisk, {.context_length = 4096, .decode = true});
  EXPECT_EQ(disk.stages.front().memory.engram_place, EngramPlace::kDisk);
  EXPECT_NEAR(waited(disk), 2 * kDiskRound, 1e-9);
  EXPECT_NEAR(disk.seconds - host.seconds, waited(disk) - waited(host), 1e-9);
}

/// 786,432 reads at 500,000 a second.
TEST_F(EngramReadsTest, APromptFromADisk) {
  EXPECT_NEAR(waited(step(EngramWish::kDisk, {.query_length = 8192})), 786432 / 500000.0, 0.01);
  const double link =
      8192 * 2 * kRowsOfToken * kRowBytes / device_.memory_levels.front().kernel_bytes_per_second;
  EXPECT_LE(waited(step(EngramWish::kHost, {.query_length = 8192})), link);
  EXPECT_GT(waited(step(EngramWish::kHost, {.query_length = 8192})), link / 2);
}

TEST_F(EngramReadsTest, NothingOfADevicesOwnMemory) {
  device_.memory_bytes *= 3;
  const StepEstimate estimate = step(EngramWish::kAuto, {.context_length = 4096, .decode = true});
  EXPECT_EQ(estimate.stages.front().memory.engram_place, EngramPlace::kDevice);
  EXPECT_EQ(waited(estimate), 0);
}

}  // namespace
}  // namespace baleen
