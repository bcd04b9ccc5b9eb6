// The next step begins while one is under way: the same replies in the same order, and no gap between steps.
#include <gtest/gtest.h>

#include <random>

#include "tests/scheduler/scheduler_world.h"

namespace baleen {
namespace {

/// What clients hear, of all requests together.
struct Event {
  std::size_t request = 0;
  std::vector<TokenId> tokens;
  std::string text;
  std::optional<ReplyEnd> end;
  friend bool operator==(const Event&, const Event&) = default;
};

class Listener : public ReplySink {
 public:
  Listener(std::size_t request, std::vector<Event>& events) : request_(request), events_(events) {}
  void piece(const ReplyPiece& piece) override {
    Event& event = events_.emplace_back(Event{request_, {}, piece.text.text, {}});
    for (const ReplyToken& token : piece.tokens) event.tokens.push_back(token.id);
  }
  void finished(const ReplySummary& summary) override {
    events_.push_back({request_, {}, summary.stop_string, summary.end});
  }

 private:
  std::size_t request_;
  std::vector<Event>& events_;
};

std::vector<Request> random_requests(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto pick = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution(low, high)(random);
  };
  std::vector<Request> requests(static_cast<std::size_t>(pick(1, 9)));
  for (Request& request : requests) {
    request.prompt = prompt_of(pick(1, 600), random());
    request.sampling = {.temperature = static_cast<double>(pick(0, 1)), .seed = random()};
    request.max_tokens = pick(1, 60);
    if (pick(0, 3) == 0) request.stops = {"abc", "fe"};
    if (pick(0, 3) == 0) request.stop_tokens = {'d', kEndToken};
    if (pick(0, 2) == 0) request.thinking = thinking_within(pick(0, 40));
    if (pick(0, 2) == 0)
      request.repetition = RepetitionLimits{.min_tokens = 2, .min_count = 2, .max_period = 20};
  }
  return requests;
}

struct Outcome {
  std::vector<Event> events;
  std::int64_t num_ahead = 0;
};

/// All requests run from the first turn on.
Outcome run(const std::vector<Request>& requests, bool runs_ahead) {
  SchedulerWorld world({.pools = {.max_draft_tokens = 0}, .max_batch_tokens = 128, .runs_ahead = runs_ahead});
  Outcome outcome;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    EXPECT_TRUE(
        world.scheduler.submit(requests[i], std::make_shared<Listener>(i, outcome.events)).has_value());
  }
  world.finish();
  world.expect_everything_came_back();
  outcome.num_ahead = world.engine.num_ahead;
  return outcome;
}

TEST(RunAhead, EventsOfEachRequestAreThoseOfTheLoopThatWaits) {
  std::int64_t num_ahead = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    const std::vector<Request> requests = random_requests(seed);
    const Outcome ahead = run(requests, true), waiting = run(requests, false);
    EXPECT_EQ(waiting.num_ahead, 0);
    num_ahead += ahead.num_ahead;
    for (std::size_t i = 0; i < requests.size(); ++i) {
      const auto of_request = [&](const std::vector<Event>& events) {
        std::vector<Event> own;
        std::ranges::copy_if(events, std::back_inserter(own), [&](const Event& e) { return e.request == i; });
        return own;
      };
      EXPECT_EQ(of_request(ahead.events), of_request(waiting.events));
    }
  }
  EXPECT_GT(num_ahead, 1000);
}

TEST(RunAhead, AForcedTokenIsWaitedForAndNothingElse) {
  for (const bool loops : {false, true}) {
    SchedulerWorld world({.pools = {.max_draft_tokens = 0}, .runs_ahead = true});
    Request request{.prompt = prompt_of(5, 1), .sampling = {.temperature = 1, .seed = 2}, .max_tokens = 60};
    request.thinking = thinking_within(loops ? std::optional<std::int64_t>() : 20);
    if (loops) request.repetition = RepetitionLimits{.min_tokens = 2, .min_count = 2, .max_period = 20};
    const ExpectedReply want = expected_reply(request, 256000);
    ASSERT_EQ(want.thinking_end, loops ? ThinkingEnd::kRepetition : ThinkingEnd::kBudget);
    const auto submitted = world.submit(request);
    world.finish();
    expect_reply(*submitted.reply, want);
    // All steps of the reply but the one that was waited for, and the first, run ahead.
    EXPECT_GE(world.engine.num_ahead, std::ssize(want.tokens) - 4);
    world.expect_everything_came_back();
  }
}

TEST(RunAhead, EventsOfAllRequestsComeInTheSameOrderWhereNoneEndsBeforeItsLength) {
  std::vector<Request> requests = random_requests(8);
  for (Request& request : requests)
    request.stops.clear(), request.stop_tokens.clear(), request.repetition.reset(), request.thinking.reset();
  EXPECT_EQ(run(requests, true).events, run(requests, false).events);
}

/// A device whose steps take a second, and clients that take the loop a millisecond a piece.
SchedulerStats timed_run(const FakeEngineOptions& options, std::int64_t speculate = 0) {
  SchedulerWorld world(options, {.speculate = speculate, .draft_schedule = false});
  const bool queues = options.queues || options.runs_ahead;
  if (queues) world.engine.on_collect = [&] { world.now += 1; };
  world.engine.on_step = [&](const auto&) {
    if (!queues) world.now += 1;
    return std::string();
  };
  for (std::uint64_t i = 0; i < 4; ++i) {
    const auto reply =
        world.submit({.prompt = prompt_of(5, i), .sampling = {.temperature = 0}, .max_tokens = 50}).reply;
    reply->on_piece = [&] { world.now += 0.001; };
  }
  while (world.scheduler.turn()) {
  }
  EXPECT_EQ(world.scheduler.stats().finished, 4);
  return world.scheduler.stats();
}

TEST(RunAhead, TheEngineIsNotIdleBetweenSteps) {
  const SchedulerStats waiting = timed_run({.pools = {.max_draft_tokens = 0}}),
                       ahead = timed_run({.pools = {.max_draft_tokens = 0}, .runs_ahead = true});
  EXPECT_NEAR(waiting.idle_seconds, 49 * 4 * 0.001, 1e-9);
  EXPECT_EQ(ahead.idle_seconds, 0);
  EXPECT_EQ(waiting.steps, 50);
  EXPECT_EQ(ahead.steps, 50);  // ends by length are known ahead
}

TEST(RunAhead, ClientsHearOfAStepWithDraftsWhileTheNextOneRuns) {
  const SchedulerStats waiting = timed_run({.chooses = true, .draft_quality = 1}, 4),
                       queued = timed_run({.queues = true, .draft_quality = 1}, 4);
  EXPECT_EQ(waiting.steps, 11);
  EXPECT_EQ(queued.steps, 11);
  EXPECT_NEAR(waiting.idle_seconds, 10 * 4 * 0.001, 1e-9);
  EXPECT_EQ(queued.idle_seconds, 0);
}

TEST(RunAhead, AStepWaitsForWhatTheHostDecides) {
  SchedulerWorld world({.pools = {.max_draft_tokens = 0}, .runs_ahead = true});
  const auto plain =
      world.submit({.prompt = prompt_of(5, 1), .sampling = {.temperature = 0}, .max_tokens = 30});
  const auto ruled = world.submit({.prompt = prompt_of(5, 2),
                                   .sampling = {.temperature = 1, .repetition_penalty = 1.2, .seed = 3},
                                   .max_tokens = 20});
  while (!ruled.reply->summary) world.scheduler.turn();
  EXPECT_EQ(world.engine.num_ahead, 0);
  EXPECT_EQ(world.engine.num_chosen, 20);  // those of the plain one: only the other's logits came to the host
  world.finish();
  EXPECT_GT(world.engine.num_ahead, 5);
  EXPECT_EQ(plain.reply->tokens.size(), 30u);
}

TEST(RunAhead, AReplyThatEndsEarlyLeavesNothingOfItsSurplusRow) {
  SchedulerWorld world({.pools = {.max_draft_tokens = 0}, .runs_ahead = true});
  Request request{.prompt = prompt_of(250, 1), .sampling = {.temperature = 1, .seed = 2}, .max_tokens = 200};
  const ExpectedReply free = expected_reply(request, 256000);
  request.stop_tokens = {free.tokens[5]};  // the sixth: its row would complete the first page
  const auto first = world.submit(request);
  world.finish();
  EXPECT_EQ(first.reply->summary->end, ReplyEnd::kStopToken);
  world.expect_everything_came_back();
  EXPECT_EQ(world.engine.cache_use().pages.cached, 0);
}

TEST(RunAhead, AFailedStepFailsItsRequestsAndLaterOnesRun) {
  SchedulerWorld world({.pools = {.max_sequences = 2, .max_draft_tokens = 0}, .runs_ahead = true});
  const Request later_request{.prompt = prompt_of(300, 3), .sampling = {.temperature = 0}, .max_tokens = 5};
  const auto first = world.submit({.prompt = prompt_of(300, 1), .max_tokens = 50}),
             second = world.submit({.prompt = prompt_of(5, 2), .max_tokens = 50}),
             later = world.submit(later_request);
  int steps = 0;
  world.engine.on_step = [&](const auto&) -> std::string { return ++steps == 3 ? "layer 7 made a NaN" : ""; };
  world.finish();
  EXPECT_EQ(first.reply->summary->error, "layer 7 made a NaN");
  EXPECT_EQ(second.reply->summary->error, "layer 7 made a NaN");
  expect_reply(*later.reply, expected_reply(later_request, 256000));
  world.expect_everything_came_back();
}

}  // namespace
}  // namespace baleen
