// A deployment in its steady state against closed forms.

#include "simulator/cost/deployment_estimate.h"

#include <gtest/gtest.h>

#include "model/presets.h"

namespace baleen {
namespace {

const SimulatedModel& flash() {
  static const SimulatedModel model{"flash", preset_config("flash"), {}};
  return model;
}
const DeviceProfile& h200() { return *find_device_profile("h200"); }
ParallelPlan plan(std::int64_t devices) {
  return resolved({.num_devices = devices, .tp = devices}, flash().config);
}

TEST(DeploymentEstimate, OneRequestWaitsForNobody) {
  for (const std::int64_t drafts : {0, 2}) {
    const ServingLoad load{.num_drafts = drafts, .draft_acceptance = {0.5}};
    const DeploymentEstimate estimate = estimate_deployment({flash(), plan(4)}, load, h200());
    const double prefill = prefill_seconds({flash(), plan(4)}, load, h200(), PrefillGroups::kAll);
    const double step = decode_step({flash(), plan(4)}, load, h200()).seconds;
    const double tokens = drafts == 0 ? 1 : 1 + 0.5 + 0.25;
    EXPECT_DOUBLE_EQ(estimate.ttft_seconds, prefill);
    EXPECT_DOUBLE_EQ(estimate.tpot_seconds, step / tokens);
    EXPECT_NEAR(estimate.requests_per_second, 1 / (prefill + 1024 * step / tokens), 1e-12);
    EXPECT_TRUE(estimate.fits());
  }
}

TEST(DeploymentEstimate, MoreRequestsYieldMoreAndWaitLonger) {
  double yield = 0, token = 0, first = 0;
  for (std::int64_t concurrency = 1; concurrency <= 256; concurrency *= 4) {
    const ServingLoad load{.prompt_tokens = 1024, .reply_tokens = 512, .concurrency = concurrency};
    const DeploymentEstimate estimate = estimate_deployment({flash(), plan(2)}, load, h200());
    EXPECT_EQ(estimate.requests_in_flight, static_cast<double>(concurrency));
    EXPECT_GT(estimate.requests_per_second, yield);
    EXPECT_GT(estimate.tpot_seconds, token);
    EXPECT_GT(estimate.ttft_seconds, first);
    // Little's law: requests at a time are their rate times how long each stays.
    EXPECT_NEAR(estimate.requests_per_second * (estimate.prefill_seconds + 512 * estimate.tpot_seconds),
                static_cast<double>(concurrency), 1e-6 * static_cast<double>(concurrency));
    yield = estimate.requests_per_second;
    token = estimate.tpot_seconds;
    first = estimate.ttft_seconds;
  }
}

TEST(DeploymentEstimate, WhereMemoryIsShortTheOthersWait) {
  ServingLoad load{.prompt_tokens = 200'000, .reply_tokens = 512, .concurrency = 1};
  const DeploymentEstimate one = estimate_deployment({flash(), plan(2)}, load, h200());
  ASSERT_TRUE(one.fits());
  load.concurrency = 4096;
  const DeploymentEstimate many = estimate_deployment({flash(), plan(2)}, load, h200());
  EXPECT_LT(many.requests_in_flight, 4096);
  EXPECT_TRUE(many.fits());
  load.concurrency = static_cast<std::int64_t>(many.requests_in_flight);
  const DeploymentEstimate full = estimate_deployment({flash(), plan(2)}, load, h200());
  EXPECT_EQ(full.requests_in_flight, many.requests_in_flight);
  EXPECT_DOUBLE_EQ(full.requests_per_second, many.requests_per_second);
  EXPECT_GT(many.ttft_seconds, full.ttft_seconds);
}

TEST(DeploymentEstimate, ChunksOfAPromptTakeAtLeastAsLongAsItInOne) {
  ServingLoad load{.prompt_tokens = 8192, .max_batch_tokens = 8192};
  const double whole = prefill_seconds({flash(), plan(4)}, load, h200(), PrefillGroups::kAll);
  load.max_batch_tokens = 1024;
  EXPECT_GT(prefill_seconds({flash(), plan(4)}, load, h200(), PrefillGroups::kAll), whole);
  load.max_batch_tokens = 8192;
  load.prefix_cache_hit_rate = 0.5;
  EXPECT_LT(prefill_seconds({flash(), plan(4)}, load, h200(), PrefillGroups::kAll), whole);
}

/// In chunks the estimate is about the sum of their steps, which grow less once all entries that a token may
/// select are there; the decoder half has the last tokens alone.
TEST(DeploymentEstimate, BoundedReplayOfAPrompt) {
  const ModelConfig config = preset_config("v41-flash");
  const SimulatedModel v41{
      "v41-flash", config, {.dense = config.dense_format, .experts = config.expert_format}};
  const PlanRanks ranks(v41, resolved({.num_devices = 8, .tp = 8}, config));
  const auto seconds = [&](const ServingLoad& load) {
    return prefill_seconds(ranks, load, h200(), PrefillGroups::kAll);
  };
  const auto step_by_step = [&](const ServingLoad& load, std::int64_t found) {
    double sum = 0;
    for (std::int64_t done = found; done < load.prompt_tokens; done += load.max_batch_tokens) {
      const std::int64_t count = std::min(load.max_batch_tokens, load.prompt_tokens - done);
      sum += estimate_step(ranks,
                           {.query_length = count,
                            .context_length = done,
                            .bounded_replay = load.bounded_replay,
                            .prompt_behind = load.prompt_tokens - done - count},
                           h200())
                 .seconds;
    }
    return sum;
  };
  ServingLoad load{.prompt_tokens = 8192, .max_batch_tokens = 8192};
  const double whole = seconds(load);
  load.bounded_replay = 128;
  EXPECT_DOUBLE_EQ(seconds(load), step_by_step(load, 0));
  EXPECT_LT(seconds(load), 0.8 * whole);
  for (const std::int64_t replay : {128, 1024, 1500, 5000, 8192, 9000}) {
    load.bounded_replay = replay;
    load.max_batch_tokens = 1024;
    EXPECT_NEAR(seconds(load), step_by_step(load, 0), 0.03 * seconds(load)) << replay;
  }
  // No more of a prompt is found than is before the decoder half.
  load.bounded_replay = 2048;
  load.prefix_cache_hit_rate = 0.9;
  EXPECT_NEAR(seconds(load), step_by_step(load, 8192 - 2048), 0.03 * seconds(load));
}

}  // namespace
}  // namespace baleen
