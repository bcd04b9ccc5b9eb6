// The profile counts calls, time and the cost that the operation's own function states, and only when asked
// to.
#include "device/cpu_device.h"

#include <gtest/gtest.h>

#include <vector>

#include "ops/rms_norm/rms_norm.h"

namespace baleen {
namespace {

TEST(CpuDevice, ProfilesOnlyWhenAsked) {
  CpuDevice device(1, 1 << 20);
  std::vector<float> x(256, 2.0F), weight(128, 1.0F);
  const RmsNormArgs args{.x = {x.data(), {2, 128}}, .weight = weight, .y = {x.data(), {2, 128}}};
  device.execute<ops::RmsNorm>(args);
  EXPECT_TRUE(device.profile().records().empty());
  device.set_profiling(true);
  device.execute<ops::RmsNorm>(args);
  device.execute<ops::RmsNorm>(args);
  const OpRecord& record = device.profile().records().at("rms_norm");
  EXPECT_EQ(record.calls, 2);
  EXPECT_GT(record.seconds, 0.0);
  EXPECT_EQ(record.cost.total_bytes(), 2 * rms_norm_cost(args).total_bytes());
  EXPECT_EQ(device.profile().total().calls, 2);
  device.profile().clear();
  EXPECT_TRUE(device.profile().records().empty());
}

}  // namespace
}  // namespace baleen
