// A deployment as a server: its cache and its step times.
#include "simulator/serving/deployed_server.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "model/presets.h"
#include "simulator/serving/cached_step_times.h"
#include "simulator/serving/estimated_step_times.h"
#include "simulator/serving/generated_requests.h"
#include "simulator/serving/serving_figures.h"
#include "simulator/serving/serving_simulation.h"

namespace baleen {
namespace {

/// An H200 whose scratch is planned as a CPU's: without a module no other is planned.
DeviceProfile test_device() {
  DeviceProfile device = load_device_profile("h200");
  device.is_cpu = true;
  return device;
}

SimulatedModel flash() { return {"flash", preset_config("flash"), {}}; }

ParallelPlan plan_of(std::int64_t num_devices, std::int64_t tp) {
  return resolved({.num_devices = num_devices, .tp = tp}, flash().config);
}

DeployedServerOptions options_for(std::int64_t max_sequences, std::int64_t drafts) {
  DeployedServerOptions options;
  options.engine.max_sequences = max_sequences;
  options.engine.max_batch_tokens = 4096;
  options.engine.max_draft_tokens = drafts;
  options.engine.prefix_cache = true;
  options.scheduler = {.max_queue = 1000, .speculate = drafts};
  return options;
}

TEST(EstimatedStepTimes, AreThoseOfAStep) {
  const SimulatedModel model = flash();
  const ParallelPlan plan = plan_of(4, 4);
  const DeviceProfile device = test_device();
  EstimatedStepTimes times(model, plan, device, /*drafts=*/false, 1, 1);
  for (const Workload& work : {Workload{.num_queries = 3, .query_length = 700, .context_length = 1000},
                               Workload{.num_queries = 16, .context_length = 5000, .decode = true}}) {
    const RankBatch batch = rank_batch(work, plan);
    EXPECT_DOUBLE_EQ(times.step_seconds(batch), estimate_step({model, plan}, work, device).seconds);
  }
}

TEST(EstimatedStepTimes, StepAndLinksMakeADraftingStep) {
  const SimulatedModel model = flash();
  const ParallelPlan plan = plan_of(4, 4);
  const DeviceProfile device = test_device();
  EstimatedStepTimes times(model, plan, device, /*drafts=*/true, 1, 1);
  const Workload work{.num_queries = 8, .context_length = 3000, .decode = true, .num_drafts = 3};
  RankBatch chains(8, QueryPart{3000, 1, 1});
  double sum = times.step_seconds(rank_batch(work, plan));
  for (int depth = 0; depth < 3; ++depth) sum += times.draft_seconds(chains, depth);
  EXPECT_NEAR(sum, estimate_step({model, plan}, work, device).seconds, 1e-3 * sum);
  // A head that makes one link at a time pays as much for each.
  const double first = times.draft_seconds(chains, 0);
  EXPECT_NEAR(times.draft_seconds(chains, 1), first, 0.05 * first);
}

TEST(DeployedServer, TakesAllTheMemoryThereIs) {
  const DeviceProfile device = test_device();
  const DeployedServerOptions options = options_for(32, 0);
  const ParallelPlan plan = plan_of(4, 4);
  const std::int64_t most = most_cache_tokens(flash(), plan, device, options.engine);
  EXPECT_EQ(most % kPageTokens, 0);
  EXPECT_GT(most, 1'000'000);
  const ServerSetup setup = deployed_server(flash(), plan, device, options);
  EXPECT_EQ(setup.capacity.num_pages, most / kPageTokens + 31) << "a part of a page for every other sequence";
  DeviceProfile smaller = device;
  smaller.memory_bytes -= setup.geometry.page_bytes() * 100;
  EXPECT_NEAR(static_cast<double>(most_cache_tokens(flash(), plan, smaller, options.engine)),
              static_cast<double>(most - 100 * kPageTokens), kPageTokens);

  DeployedServerOptions too_much = options;
  too_much.engine.cache_tokens = most + kPageTokens;
  EXPECT_THROW(static_cast<void>(deployed_server(flash(), plan, device, too_much)), Error);
  EXPECT_THROW(static_cast<void>(deployed_server(flash(), plan_of(1, 1), device, options)), Error);
}

// The stage before the last has no blocks of the draft head; the model has one.
TEST(DeployedServer, APipelineDrafts) {
  const ParallelPlan plan = resolved({.num_devices = 8, .tp = 4, .pp = 2}, flash().config);
  const ServerSetup setup = deployed_server(flash(), plan, test_device(), options_for(32, 1));
  EXPECT_EQ(setup.limits.max_draft_tokens, 1);
}

/// Steps are priced with the rows that go on, on one stage and on two; other models have no decoder half.
TEST(DeployedServer, BoundedReplay) {
  const ModelConfig config = preset_config("v41-flash");
  const SimulatedModel v41{
      "v41-flash", config, {.dense = config.dense_format, .experts = config.expert_format}};
  DeployedServerOptions options = options_for(8, 0);
  for (const ParallelPlan& plan : {resolved({.num_devices = 8, .tp = 8}, config),
                                   resolved({.num_devices = 8, .tp = 4, .pp = 2}, config)}) {
    options.engine.bounded_replay_tokens = 128;
    const ServerSetup bounded = deployed_server(v41, plan, test_device(), options);
    EXPECT_EQ(bounded.bounded_replay_tokens, 128);
    const Workload work{.query_length = 4096, .bounded_replay = 128};
    const RankBatch whole{{.num_tokens = 4096}}, prompt = rank_batch(work, {.dp = 1});
    const double seconds = bounded.times->step_seconds(prompt);
    EXPECT_LT(seconds, 0.8 * bounded.times->step_seconds(whole));
    if (plan.pp == 1) {
      EXPECT_DOUBLE_EQ(seconds, estimate_step({v41, plan}, work, test_device()).seconds);
    }
  }
  options.engine.bounded_replay_tokens = 100;
  EXPECT_THROW(static_cast<void>(deployed_server(v41, resolved({.num_devices = 8, .tp = 8}, config),
                                                 test_device(), options)),
               Error);
  try {
    static_cast<void>(deployed_server(flash(), plan_of(4, 4), test_device(), options));
    ADD_FAILURE() << "V4 has no decoder half";
  } catch (const Error& error) {
    EXPECT_TRUE(std::string(error.what()).starts_with("‹bounded replay›: this model has no decoder half"))
        << error.what();
  }
}

TEST(DeployedServer, GridChangesFiguresByLittle) {
  const ServerSetup setup = deployed_server(flash(), plan_of(4, 4), test_device(), options_for(32, 1));
  const GeneratedRequestsOptions load{.num_requests = 120,
                                      .clients = 32,
                                      .prompt = {.mean = 1000, .variation = 0.5},
                                      .output = {.mean = 60, .variation = 0.5}};
  const auto figures_with = [&](const ServerSetup& server) {
    const ServingOptions options{.server = server, .acceptance = Acceptance::of_chain({0.8}, 1)};
    return figures_of(simulate_serving(options, *make_generated_requests(load)), {});
  };
  const ServingFigures exact = figures_with(setup);
  ServerSetup cached = setup;
  cached.times = std::make_shared<CachedStepTimes>(setup.times, setup.reach);
  const ServingFigures coarse = figures_with(cached);
  EXPECT_NEAR(coarse.seconds, exact.seconds, 0.01 * exact.seconds);
  EXPECT_NEAR(coarse.first_token.mean, exact.first_token.mean, 0.01 * exact.first_token.mean);
  EXPECT_NEAR(coarse.per_output_token.mean, exact.per_output_token.mean, 0.01 * exact.per_output_token.mean);
}

}  // namespace
}  // namespace baleen
