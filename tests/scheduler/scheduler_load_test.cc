// Thousands of requests that come, go and crowd each other out.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "tests/scheduler/scheduler_world.h"

namespace baleen {
namespace {

using Random = std::mt19937_64;

std::int64_t pick(Random& random, std::int64_t low, std::int64_t high) {
  return std::uniform_int_distribution(low, high)(random);
}

Request random_request(Random& random, std::int64_t longest_prompt) {
  Request request;
  // Few families: their prompts begin alike, so that the cache has something to do.
  request.prompt = prompt_of(pick(random, 1, longest_prompt), static_cast<std::uint64_t>(pick(random, 0, 5)));
  if (pick(random, 0, 1) == 0) request.prompt.push_back(static_cast<TokenId>(pick(random, 0, 255)));
  request.sampling.temperature = pick(random, 0, 3) == 0 ? 0 : 1;
  request.sampling.seed = random();
  if (pick(random, 0, 4) == 0) request.sampling.repetition_penalty = 1.2;
  if (pick(random, 0, 4) == 0) request.sampling.dry.multiplier = 0.8;
  if (pick(random, 0, 4) == 0) request.stops = {"abc", "fe"};
  if (pick(random, 0, 2) == 0) request.thinking = thinking_within(pick(random, 0, 30));
  if (pick(random, 0, 4) == 0)
    request.repetition = RepetitionLimits{.min_tokens = 2, .min_count = 2, .max_period = 20};
  if (pick(random, 0, 4) == 0) request.stop_tokens = {'d', kEndToken};
  if (pick(random, 0, 6) == 0) request.rules = json_rules(request.thinking || pick(random, 0, 1) == 0);
  request.max_tokens = pick(random, 0, 30) == 0 ? pick(random, 200, 600) : pick(random, 1, 50);
  return request;
}

FakeEngineOptions random_engine(Random& random) {
  return {.pools = {.num_pages = pick(random, 4, 24),
                    .num_window_pages = pick(random, 5, 40),
                    .max_sequences = pick(random, 1, 12),
                    .max_draft_tokens = pick(random, 0, 4)},
          .max_batch_tokens = pick(random, 1, 400),
          .max_logit_rows = pick(random, 1, 24),
          .draft_quality = 0.6};
}

struct Tracked {
  Request request;
  RequestId id{};
  std::shared_ptr<RecordedReply> reply;
  bool cancelled = false;
};

using MakePaging = std::unique_ptr<FakePaging> (*)(const FakePools&);
class Crowd : public testing::TestWithParam<std::tuple<std::uint64_t, MakePaging, bool>> {};

TEST_P(Crowd, EveryRequestEndsOnceAsIfItWereAlone) {
  const auto& [seed, paging, runs_ahead] = GetParam();
  Random random(seed);
  FakeEngineOptions engine_options = random_engine(random);
  engine_options.paging = paging;
  engine_options.runs_ahead = runs_ahead;
  if (runs_ahead) engine_options.pools.max_draft_tokens = 0;
  engine_options.queues = seed % 2 == 0;
  SchedulerWorld world(engine_options, {.max_queue = pick(random, 1, 60),
                                        .max_batch_tokens = pick(random, 0, 300),
                                        .speculate = pick(random, 0, 5),
                                        .prefill_share_tokens = pick(random, 0, 200)});
  const bool faults = pick(random, 0, 3) == 0;
  world.engine.on_step = [&](const auto&) -> std::string {
    return faults && pick(random, 0, 300) == 0 ? "a layer made a NaN" : "";
  };
  const std::int64_t context = world.engine.limits().context_tokens;
  const std::int64_t longest_prompt = std::min<std::int64_t>(context, 900);
  constexpr std::size_t kNumRequests = 150;
  std::vector<Tracked> crowd;
  std::int64_t refused = 0, turns = 0;
  for (; crowd.size() < kNumRequests || !world.scheduler.idle(); ++turns) {
    ASSERT_LT(turns, 300000) << "no progress";
    const bool rush = turns / 50 % 3 == 0;
    for (std::int64_t n = rush ? pick(random, 0, 3) : 0; n > 0 && crowd.size() < kNumRequests; --n) {
      Tracked tracked{.request = random_request(random, longest_prompt),
                      .reply = std::make_shared<RecordedReply>()};
      tracked.request.priority = static_cast<int>(std::max<std::int64_t>(0, pick(random, -3, 2)));
      if (!crowd.empty() && pick(random, 0, 5) == 0) {
        const Tracked& leader = crowd[static_cast<std::size_t>(pick(random, 0, std::ssize(crowd) - 1))];
        tracked.request.after_prompt_of = leader.id;
      }
      const auto id = world.scheduler.submit(tracked.request, tracked.reply);
      refused += id ? 0 : 1;
      if (!id) continue;
      tracked.id = *id;
      crowd.push_back(std::move(tracked));
    }
    if (!crowd.empty() && pick(random, 0, 40) == 0) {
      Tracked& victim = crowd[static_cast<std::size_t>(pick(random, 0, std::ssize(crowd) - 1))];
      victim.cancelled = true;
      world.scheduler.cancel(victim.id);
    }
    world.now += 1;
    world.scheduler.turn();
  }

  std::int64_t failed = 0, cancelled = 0, finished = 0, reply_tokens = 0;
  for (const Tracked& tracked : crowd) {
    SCOPED_TRACE(static_cast<std::int64_t>(tracked.id));
    ASSERT_TRUE(tracked.reply->summary.has_value());
    const ReplySummary& summary = *tracked.reply->summary;
    reply_tokens += summary.reply_tokens;
    const ExpectedReply want = expected_reply(tracked.request, context);
    if (summary.end == ReplyEnd::kCancelled) {
      ++cancelled;
      EXPECT_TRUE(tracked.cancelled);
    } else if (summary.end == ReplyEnd::kFailed) {
      ++failed;
      EXPECT_TRUE(faults) << summary.error;
    } else {
      ++finished;
      expect_reply(*tracked.reply, want);
      continue;
    }
    const auto ids = tracked.reply->ids();
    ASSERT_LE(ids.size(), want.tokens.size());
    EXPECT_TRUE(std::equal(ids.begin(), ids.end(), want.tokens.begin())) << "not the beginning of its reply";
  }
  const SchedulerStats stats = world.scheduler.stats();
  EXPECT_EQ(stats.submitted, std::ssize(crowd));
  EXPECT_EQ(stats.refused, refused);
  EXPECT_EQ(stats.finished, finished);
  EXPECT_EQ(stats.failed, failed);
  EXPECT_EQ(stats.cancelled, cancelled);
  EXPECT_EQ(stats.reply_tokens, reply_tokens);
  EXPECT_EQ(stats.waiting + stats.running, 0);
  world.expect_everything_came_back();
}

INSTANTIATE_TEST_SUITE_P(ToyPages, Crowd,
                         testing::Combine(testing::Range<std::uint64_t>(0, 24),
                                          testing::Values(make_toy_paging), testing::Bool()));
INSTANTIATE_TEST_SUITE_P(EnginePages, Crowd,
                         testing::Combine(testing::Range<std::uint64_t>(24, 48),
                                          testing::Values(make_table_paging), testing::Bool()));

TEST(Starvation, AmongEqualsEveryoneIsAdmittedInOrderAndTheOldestIsNeverPreempted) {
  Random random(4);
  SchedulerWorld world({.pools = {.num_pages = 10, .max_sequences = 6}, .max_batch_tokens = 200},
                       {.max_queue = 1000});
  std::vector<SchedulerWorld::Submitted> replies;
  for (int i = 0; i < 300; ++i) replies.push_back(world.submit(random_request(random, 1500)));
  std::int64_t steps = world.finish();
  double last_admission = 0;
  for (const auto& submitted : replies) {
    EXPECT_GE(submitted.reply->summary->queue_seconds, last_admission);
    last_admission = submitted.reply->summary->queue_seconds;
  }
  EXPECT_EQ(replies[0].reply->summary->preemptions, 0);
  EXPECT_GT(world.scheduler.stats().preemptions, 0);
  // What is computed again after preemptions stays a fraction of the work.
  std::int64_t least_steps = 0;
  for (const auto& submitted : replies) {
    least_steps += submitted.reply->summary->prompt_tokens / 200 + submitted.reply->summary->reply_tokens;
  }
  EXPECT_LT(steps, least_steps);
}

TEST(Starvation, ALongRequestEndsWhileShortOnesKeepComing) {
  Random random(5);
  SchedulerWorld world({.pools = {.num_pages = 12, .max_sequences = 4}, .max_batch_tokens = 128},
                       {.max_queue = 20});
  const auto short_request = [&] {
    Request request = random_request(random, 100);
    request.max_tokens = pick(random, 1, 20);
    return request;
  };
  for (int i = 0; i < 10; ++i) world.submit(short_request());
  Request long_request = random_request(random, 1);
  long_request.prompt = prompt_of(2500, 99);
  long_request.max_tokens = 200;
  long_request.stops.clear();
  long_request.thinking.reset();
  long_request.repetition.reset();
  long_request.stop_tokens.clear();
  const auto slow = world.submit(long_request);
  int turns = 0;
  for (; !slow.reply->summary && turns < 2000; ++turns) {
    // More comes than can be served: the queue is always full.
    for (int i = 0; i < 2; ++i) {
      static_cast<void>(world.scheduler.submit(short_request(), std::make_shared<RecordedReply>()));
    }
    world.scheduler.turn();
  }
  expect_reply(*slow.reply, expected_reply(long_request, 12 * kPageTokens));
  // Ten requests before it, 2500 tokens by 64 a step, 200 tokens.
  EXPECT_LT(turns, 10 * 20 + 2500 / 16 + 200);
  EXPECT_GT(world.scheduler.stats().refused, 0);
  world.finish();
}

}  // namespace
}  // namespace baleen
