#include "simulator/search/nearest_fit.h"

#include <gtest/gtest.h>

#include "model/presets.h"

namespace baleen {
namespace {

struct Advised {
  NearestFit fit;
  SimulatedModel model;
  ParallelPlan plan;
  Workload workload;
  DeviceProfile device;

  [[nodiscard]] StepEstimate estimate(const ParallelPlan& other, const Workload& work) const {
    return estimate_step({model, other}, work, device);
  }
};

Advised advise(const char* preset, ParallelPlan plan, const Workload& workload,
               std::int64_t max_devices = 64) {
  Advised advised{{}, {preset, preset_config(preset), {}}, plan, workload, *find_device_profile("h200")};
  advised.device.memory_levels.clear();  // behind which everything fits
  advised.plan = resolved(plan, advised.model.config);
  const StepEstimate estimate = advised.estimate(advised.plan, workload);
  EXPECT_FALSE(estimate.fits());
  advised.fit = nearest_fit(advised.model, advised.plan, workload, advised.device, estimate, max_devices);
  EXPECT_EQ(advised.fit.missing_bytes, estimate.memory_bytes - estimate.device_memory_bytes);
  return advised;
}

TEST(NearestFit, WhatItAdvisesFitsAndOneMoreDoesNot) {
  const Advised a = advise("flash", {.num_devices = 4, .tp = 4},
                           {.num_queries = 512, .context_length = 500'000, .decode = true});
  ASSERT_TRUE(a.fit.num_queries && a.fit.context_length && a.fit.plan);
  Workload work = a.workload;
  work.num_queries = *a.fit.num_queries;
  EXPECT_TRUE(a.estimate(a.plan, work).fits());
  ++work.num_queries;
  EXPECT_FALSE(a.estimate(a.plan, work).fits());
  work = a.workload;
  work.context_length = *a.fit.context_length;
  EXPECT_TRUE(a.estimate(a.plan, work).fits());
  // Pages hold 256 positions.
  work.context_length += 256;
  EXPECT_FALSE(a.estimate(a.plan, work).fits());
  EXPECT_TRUE(violations(*a.fit.plan, a.model.config).empty());
  EXPECT_TRUE(a.estimate(*a.fit.plan, a.workload).fits());
}

TEST(NearestFit, WeightsAloneWantMoreDevices) {
  const Advised a = advise("pro", {.num_devices = 2, .tp = 2}, {.context_length = 8192, .decode = true});
  EXPECT_FALSE(a.fit.num_queries);
  EXPECT_FALSE(a.fit.context_length);
  ASSERT_TRUE(a.fit.plan);
  EXPECT_EQ(a.fit.plan->num_devices, 8);
  const std::string text = to_text(a.fit, a.workload);
  EXPECT_NE(text.find("GB are missing"), std::string::npos) << text;
  EXPECT_NE(text.find("8 devices: "), std::string::npos) << text;
}

TEST(NearestFit, PromptsComeInChunks) {
  const Advised a = advise("flash", {.num_devices = 4, .tp = 4}, {.num_queries = 8, .query_length = 1 << 19});
  ASSERT_TRUE(a.fit.query_length);
  Workload work = a.workload;
  work.query_length = *a.fit.query_length;
  EXPECT_TRUE(a.estimate(a.plan, work).fits());
  work.query_length += 256;
  EXPECT_FALSE(a.estimate(a.plan, work).fits());
}

TEST(NearestFit, WhereNothingHelpsItSaysSo) {
  const Advised a = advise("pro", {.num_devices = 2, .tp = 2}, {.context_length = 8192, .decode = true}, 4);
  EXPECT_FALSE(a.fit.plan);
  EXPECT_NE(to_text(a.fit, a.workload).find("neither"), std::string::npos);
}

}  // namespace
}  // namespace baleen
