// The simulation against the Scheduler itself, and against itself without skipping.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "simulator/serving/generated_requests.h"
#include "simulator/serving/serving_figures.h"
#include "tests/simulator/serving/scheduler_driver.h"
#include "tests/simulator/serving/small_server.h"

namespace baleen {
namespace {

using Random = std::mt19937_64;

std::int64_t pick(Random& random, std::int64_t low, std::int64_t high) {
  return std::uniform_int_distribution(low, high)(random);
}

/// From idle to crowded, with pages enough or far too few.
SmallServer any_server(Random& random) {
  SmallServer server;
  server.num_pages = pick(random, 6, 60);
  server.num_window_pages = pick(random, 6, 60);
  server.max_sequences = pick(random, 1, 12);
  server.max_batch_tokens = pick(random, 2, 600);
  server.max_draft_tokens = pick(random, 0, 1) == 0 ? 0 : pick(random, 1, 4);
  server.max_queue = pick(random, 0, 3) == 0 ? pick(random, 1, 10) : 1'000'000;
  server.bounded_replay_tokens = pick(random, 0, 2) == 0 ? pick(random, 128, 700) : 0;
  return server;
}

GeneratedRequestsOptions any_workload(Random& random) {
  GeneratedRequestsOptions options;
  options.num_requests = pick(random, 1, 60);
  options.seed = static_cast<std::uint64_t>(pick(random, 0, 1'000'000));
  options.rate = pick(random, 0, 2) == 0 ? 0 : static_cast<double>(pick(random, 1, 100));
  options.burstiness = pick(random, 0, 1) == 0 ? 1 : 0.3;
  options.clients = pick(random, 1, 12);
  options.prompt = {.mean = static_cast<double>(pick(random, 1, 900)),
                    .variation = pick(random, 0, 1) == 0 ? 0 : 0.8};
  options.output = {.mean = static_cast<double>(pick(random, 1, 300)),
                    .variation = pick(random, 0, 1) == 0 ? 0 : 0.8};
  options.families = pick(random, 1, 3);
  options.family_tokens = pick(random, 0, 1) == 0 ? 0 : pick(random, 1, 700);
  options.turns = pick(random, 1, 4);
  options.think_seconds = pick(random, 0, 1) == 0 ? 0 : 0.1;
  return options;
}

ServingOptions options_for(Random& random, const SmallServer& server, std::uint64_t seed) {
  ServingOptions options;
  options.server = server.setup();
  options.server.reserved_tails = pick(random, 0, 2);
  options.server.scheduler.prefill_share_tokens = pick(random, 0, 200);
  if (pick(random, 0, 2) == 0) options.patience_seconds = 1e-2 * static_cast<double>(pick(random, 1, 50));
  options.acceptance = Acceptance::of_chain({0.9, 0.7, 0.5}, seed);
  return options;
}

class RandomWorkload : public testing::TestWithParam<std::uint64_t> {};

TEST_P(RandomWorkload, GoesAsWithTheScheduler) {
  Random random(GetParam());
  const SmallServer server = any_server(random);
  const GeneratedRequestsOptions workload = any_workload(random);
  const ServingOptions options = options_for(random, server, workload.seed);
  const ServingResult simulated = simulate_serving(options, *make_generated_requests(workload));
  const ServingResult real = serve_with_scheduler(options, *make_generated_requests(workload));

  ASSERT_EQ(simulated.requests.size(), real.requests.size());
  for (std::size_t i = 0; i < real.requests.size(); ++i) {
    SCOPED_TRACE(i);
    const RequestRecord &got = simulated.requests[i], &want = real.requests[i];
    ASSERT_EQ(got.end, want.end) << simulated.first_refusal;
    EXPECT_EQ(got.arrival, want.arrival);
    if (want.end == RequestEnd::kAbandoned) {
      EXPECT_EQ(got.finished, want.finished);
    }
    if (want.end != RequestEnd::kFinished) continue;
    EXPECT_EQ(got.first_token, want.first_token);
    EXPECT_EQ(got.finished, want.finished);
    EXPECT_NEAR(got.admitted, want.admitted, 1e-9);
    EXPECT_EQ(got.prompt_tokens, want.prompt_tokens);
    EXPECT_EQ(got.cached_tokens, want.cached_tokens);
    EXPECT_EQ(got.output_tokens, want.output_tokens);
    EXPECT_EQ(got.drafted_tokens, want.drafted_tokens);
    EXPECT_EQ(got.accepted_tokens, want.accepted_tokens);
    EXPECT_EQ(got.preemptions, want.preemptions);
  }
  EXPECT_EQ(simulated.servers[0].steps, real.servers[0].steps);
  EXPECT_EQ(simulated.servers[0].preemptions, real.servers[0].preemptions);
  EXPECT_EQ(simulated.first_refusal, real.first_refusal);
  EXPECT_EQ(simulated.gaps.count(), real.gaps.count());
  EXPECT_EQ(simulated.gaps.quantile(0.5), real.gaps.quantile(0.5));
}

TEST_P(RandomWorkload, GoesTheSameStepByStep) {
  Random random(GetParam());
  const SmallServer server = any_server(random);
  const GeneratedRequestsOptions workload = any_workload(random);
  ServingOptions options = options_for(random, server, workload.seed);
  if (pick(random, 0, 1) == 0) {
    options.decode = any_server(random).setup();
    options.link = {.bytes_per_second = 1e9, .latency_seconds = 1e-4};
  }
  const ServingResult skipping = simulate_serving(options, *make_generated_requests(workload));
  options.skip_ahead = false;
  const ServingResult stepping = simulate_serving(options, *make_generated_requests(workload));
  EXPECT_TRUE(skipping.requests == stepping.requests);
  EXPECT_TRUE(skipping.servers == stepping.servers);
  EXPECT_EQ(skipping.gaps.count(), stepping.gaps.count());
  EXPECT_EQ(skipping.gaps.mean(), stepping.gaps.mean());
  EXPECT_EQ(skipping.gaps.quantile(0.99), stepping.gaps.quantile(0.99));
}

constexpr std::uint64_t kNumSeeds = 300;
INSTANTIATE_TEST_SUITE_P(Seeds, RandomWorkload, testing::Range<std::uint64_t>(0, kNumSeeds));

TEST(RandomWorkloads, HaveEverythingInThem) {
  ServingFigures sum;
  std::int64_t waited = 0;
  for (std::uint64_t seed = 0; seed < kNumSeeds; ++seed) {
    Random random(seed);
    const SmallServer server = any_server(random);
    const GeneratedRequestsOptions workload = any_workload(random);
    const ServingOptions options = options_for(random, server, workload.seed);
    const ServingFigures figures =
        figures_of(simulate_serving(options, *make_generated_requests(workload)), {});
    sum.finished += figures.finished;
    sum.turned_away += figures.turned_away;
    sum.abandoned += figures.abandoned;
    sum.refused += figures.refused;
    sum.cached_tokens += figures.cached_tokens;
    sum.accepted_tokens += figures.accepted_tokens;
    sum.preemptions += figures.preemptions;
    waited += figures.queue.mean > 0.1 ? 1 : 0;
  }
  for (const std::int64_t count :
       {sum.finished, sum.turned_away, sum.abandoned, sum.refused, sum.cached_tokens / kPageTokens,
        sum.accepted_tokens, sum.preemptions, waited}) {
    EXPECT_GT(count, 20);
  }
}

}  // namespace
}  // namespace baleen
