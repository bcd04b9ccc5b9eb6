#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <functional>
#include <map>
#include <numeric>

#include "tests/scheduler/scheduler_world.h"

namespace baleen {
namespace {

Request request_of(std::uint64_t family, const SamplingParams& sampling, std::int64_t max_tokens) {
  Request request;
  request.prompt = prompt_of(20 + static_cast<std::int64_t>(family % 300), family);
  request.sampling = sampling;
  request.max_tokens = max_tokens;
  return request;
}

/// Every way of choosing a token, with ways of ending.
std::vector<Request> all_kinds() {
  std::vector<Request> requests;
  std::uint64_t family = 0;
  for (SamplingParams sampling : {SamplingParams{.temperature = 0}, SamplingParams{.temperature = 0.7},
                                  SamplingParams{.top_k = 7}, SamplingParams{.top_p = 0.8, .min_p = 0.01}}) {
    for (const bool penalised : {false, true}) {
      sampling.seed = 100 + family;
      if (penalised) {
        sampling.repetition_penalty = 1.1;
        sampling.frequency_penalty = 0.3;
        sampling.presence_penalty = 0.2;
        sampling.logit_bias = {{'q', 7.0}, {'a', -2.0}};
      }
      for (const bool ruled : {false, true}) {
        requests.push_back(request_of(++family, sampling, 60));
        if (ruled) requests.back().rules = json_rules(family % 4 == 3);
        requests.push_back(request_of(++family, sampling, 200));
        if (ruled) requests.back().rules = json_rules(family % 4 == 3);
        requests.back().stops = {"ace", "cc"};
        requests.back().stop_tokens = {'z', kEndToken};
        // Thinking that is ended at some token, by its budget or because eight letters soon repeat.
        requests.push_back(request_of(++family, sampling, 120));
        requests.back().thinking = thinking_within(family % 23);
        if (ruled) requests.back().rules = json_rules(true);
        requests.push_back(request_of(++family, sampling, 200));
        requests.back().thinking = thinking_within(std::nullopt);
        requests.back().repetition = RepetitionLimits{.min_tokens = 2, .min_count = 2, .max_period = 20};
      }
    }
  }
  return requests;
}

TEST(Speculation, ChangesNoReplyWhateverTheDraftsAreWorth) {
  const std::vector<Request> requests = all_kinds();
  for (const std::int64_t speculate : {0, 1, 3, 9}) {
    for (const double quality : {0.0, 0.6, 1.0}) {
      SchedulerWorld world({.pools = {.num_pages = 40, .max_sequences = 9},
                            .max_batch_tokens = 70,
                            .max_logit_rows = 20,
                            .chooses = quality > 0,  // in steps without penalties and rules
                            .draft_quality = quality},
                           {.speculate = speculate});
      std::vector<SchedulerWorld::Submitted> replies;
      for (const Request& request : requests) replies.push_back(world.submit(request));
      world.finish();
      for (std::size_t i = 0; i < requests.size(); ++i) {
        SCOPED_TRACE(testing::Message() << "request " << i << ", " << speculate << " drafts of " << quality);
        expect_reply(*replies[i].reply, expected_reply(requests[i], 40 * kPageTokens));
        const ReplySummary& summary = *replies[i].reply->summary;
        EXPECT_LE(summary.accepted_tokens, summary.drafted_tokens);
        // A step gives what it accepts and one token more, unless the reply ends with an accepted one.
        const std::int64_t given = 1 + summary.steps + summary.accepted_tokens;
        EXPECT_TRUE(summary.reply_tokens == given || summary.reply_tokens == given - 1);
      }
      const SchedulerStats stats = world.scheduler.stats();
      EXPECT_GE(stats.thinking_over_budget, 12);
      EXPECT_GT(stats.looping_thinking, 4);
      EXPECT_GT(stats.looping_replies, 4);
      EXPECT_EQ(stats.drafted_tokens > 0, speculate > 0);
      if (speculate > 0 && quality == 1) {
        EXPECT_LT(9 * stats.drafted_tokens, 10 * stats.accepted_tokens);  // penalties do not see drafts
      }
      world.expect_everything_came_back();
    }
  }
}

TEST(Speculation, TokensThatTheEngineChoosesAreTheSame) {
  std::vector<Request> requests = all_kinds();
  std::erase_if(requests,
                [](const Request& request) { return request.rules || request.sampling.adjusts_logits(); });
  for (const bool queues : {false, true}) {
    for (const std::int64_t speculate : {0, 3}) {
      SchedulerWorld world({.chooses = true, .queues = queues}, {.speculate = speculate});
      std::vector<SchedulerWorld::Submitted> replies;
      for (const Request& request : requests) replies.push_back(world.submit(request));
      world.finish();
      for (std::size_t i = 0; i < requests.size(); ++i) {
        expect_reply(*replies[i].reply, expected_reply(requests[i], 256000));
      }
      EXPECT_GT(world.engine.num_chosen, 0);
      EXPECT_EQ(world.engine.num_queued, queues ? world.scheduler.stats().steps : 0);
      EXPECT_EQ(world.scheduler.stats().accepted_tokens > 0, speculate > 0);
    }
  }
}

TEST(Speculation, ChainsThatTheEngineMakesAreThoseOfTheLoop) {
  for (const bool queues : {false, true}) {
    SchedulerWorld world({.chooses = true, .queues = queues, .draft_quality = 1},
                         {.speculate = 3, .draft_schedule = false});
    const auto submitted = world.submit(request_of(1, {.temperature = 0.8, .seed = 1}, 41));
    world.finish();
    EXPECT_EQ(submitted.reply->summary->steps, 10);
    EXPECT_EQ(submitted.reply->summary->drafted_tokens, 30);
    EXPECT_EQ(submitted.reply->summary->accepted_tokens, 30);
  }
}

TEST(Speculation, AQueuedStepGoesOnWithoutDraftsThatAreNoNumbers) {
  SchedulerWorld world({.queues = true, .draft_quality = 1}, {.speculate = 3});
  world.engine.drafts_fail = true;
  const Request request = request_of(1, {.seed = 1}, 20);
  const auto submitted = world.submit(request);
  world.finish();
  expect_reply(*submitted.reply, expected_reply(request, 256000));
  EXPECT_EQ(submitted.reply->summary->accepted_tokens, 0);
  world.expect_everything_came_back();
}

TEST(Speculation, ATokenThatABudgetForcesIsDrafted) {
  for (const bool chooses : {false, true}) {
    SchedulerWorld world({.chooses = chooses, .draft_quality = 1}, {.speculate = 3, .draft_schedule = false});
    Request request = request_of(1, {.seed = 1}, 41);
    request.thinking = thinking_within(18);
    const auto submitted = world.submit(request);
    world.finish();
    expect_reply(*submitted.reply, expected_reply(request, 256000));
    EXPECT_EQ(submitted.reply->summary->thinking_end, ThinkingEnd::kBudget);
    EXPECT_EQ(submitted.reply->summary->steps, 10);  // as without a budget: every draft is right
    EXPECT_EQ(submitted.reply->summary->accepted_tokens, 30);
  }
}

TEST(Speculation, PerfectDraftsSaveSteps) {
  SchedulerWorld world({.draft_quality = 1}, {.speculate = 3, .draft_schedule = false});
  const auto submitted = world.submit(request_of(1, {.seed = 1}, 41));
  world.finish();
  const ReplySummary& summary = *submitted.reply->summary;
  EXPECT_EQ(summary.steps, 10);  // the prompt's step gives the first token, each other four
  EXPECT_EQ(summary.drafted_tokens, 30);
  EXPECT_EQ(summary.accepted_tokens, 30);
  const SchedulerStats stats = world.scheduler.stats();
  EXPECT_EQ(stats.steps, 11);
  EXPECT_EQ(stats.reply_tokens, 41);
  EXPECT_EQ(stats.drafted_tokens, 30);
  EXPECT_EQ(stats.accepted_tokens, 30);
  EXPECT_EQ(stats.draft_chains, 10);
  ASSERT_EQ(stats.drafts_by_depth.size(), 3u);
  for (const DraftsAtDepth& at : stats.drafts_by_depth) {
    EXPECT_EQ(at.drafted, 10);
    EXPECT_EQ(at.accepted, 10);
  }
}

/// A machine whose steps take so many seconds by their rows, of which some are drafts.
struct TimedWorld : SchedulerWorld {
  using Seconds = std::function<double(std::int64_t rows, std::int64_t drafts)>;
  TimedWorld(const FakeEngineOptions& options, const SchedulerOptions& scheduling, Seconds seconds)
      : SchedulerWorld(options, scheduling) {
    const bool queues = options.queues || options.runs_ahead;
    engine.on_step = [=, this](const std::vector<FakeStepPart>& parts) {
      std::int64_t rows = 0, drafts = 0;
      for (const FakeStepPart& part : parts) {
        rows += part.num_tokens;
        if (part.wanted != WantedLogits::kNone && part.num_tokens <= 1 + scheduling.speculate)
          drafts += part.num_tokens - 1;
      }
      if (queues) {
        under_way.push_back(seconds(rows, drafts));
      } else {
        now += seconds(rows, drafts);
      }
      return std::string();
    };
    engine.on_collect = [this] {
      now += under_way.front();
      under_way.pop_front();
    };
  }
  void finish() {
    while (scheduler.turn()) {
    }
  }

  std::deque<double> under_way;
};

std::vector<Request> long_requests(std::int64_t count, std::int64_t max_tokens) {
  std::vector<Request> requests;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto family = static_cast<std::uint64_t>(i);
    requests.push_back({.prompt = prompt_of(5, family),
                        .sampling = {.temperature = 0.8, .seed = family},
                        .max_tokens = max_tokens});
  }
  return requests;
}

/// Neither what the schedule chooses, nor where a chain is cut, nor how steps are run is in a reply.
TEST(Speculation, RepliesAreTheSameWithEveryScheduleAndThreshold) {
  const auto seconds = [](std::int64_t rows, std::int64_t drafts) {
    return 0.01 + 0.002 * static_cast<double>(rows) + (drafts > 0 ? 0.005 : 0);
  };
  std::vector<Request> requests = long_requests(6, 150);
  requests[4].sampling.repetition_penalty = 1.2;  // the host decides its tokens
  requests[5].max_tokens = 20;
  for (int engine = 0; engine < 4; ++engine) {
    for (const bool schedule : {false, true}) {
      for (const double threshold : {0.0, 0.5, 1.0}) {
        SCOPED_TRACE(testing::Message() << engine << " " << schedule << " " << threshold);
        TimedWorld world({.chooses = engine > 0,
                          .queues = engine > 1,
                          .runs_ahead = engine > 2,
                          .draft_quality = 0.7,
                          .tells_confidence = true},
                         {.speculate = 4, .draft_schedule = schedule, .draft_threshold = threshold}, seconds);
        std::vector<SchedulerWorld::Submitted> replies;
        for (const Request& request : requests) replies.push_back(world.submit(request));
        world.finish();
        for (std::size_t i = 0; i < requests.size(); ++i)
          expect_reply(*replies[i].reply, expected_reply(requests[i], 256000));
        const SchedulerStats stats = world.scheduler.stats();
        if (threshold == 1) {
          EXPECT_EQ(stats.drafted_tokens, 0);  // no head is that sure
        } else {
          EXPECT_LT(0, stats.drafted_tokens);
        }
        world.expect_everything_came_back();
      }
    }
  }
}

TEST(Speculation, AThresholdEndsChainsBeforeTheFirstDraftThatTheHeadDoubts) {
  SchedulerWorld world({.queues = true, .draft_quality = 0.6, .tells_confidence = true},
                       {.speculate = 4, .draft_schedule = false, .draft_threshold = 0.5});
  for (const Request& request : long_requests(3, 100)) world.submit(request);
  world.finish();
  const SchedulerStats stats = world.scheduler.stats();
  // This head is sure where it sees the true logits, so that what is left is right.
  EXPECT_LT(100, stats.drafted_tokens);
  EXPECT_EQ(stats.accepted_tokens, stats.drafted_tokens);
  const std::vector<DraftsAtDepth>& drafts = stats.drafts_by_depth;
  for (std::size_t depth = 1; depth < 4; ++depth) EXPECT_LT(drafts[depth].drafted, drafts[depth - 1].drafted);
}

/// With drafts that are not worth their rows steps run ahead of each other again, but for a few that look.
TEST(Speculation, StepsRunAheadWhereDraftsDoNotPay) {
  const auto run = [](double seconds_of_row) {
    TimedWorld world(
        {.pools = {.num_pages = 100, .max_sequences = 8}, .runs_ahead = true, .draft_quality = 0.5},
        {.speculate = 4}, [=](std::int64_t rows, std::int64_t drafts) {
          return 0.01 + seconds_of_row * static_cast<double>(rows) + (drafts > 0 ? 0.001 : 0);
        });
    for (const Request& request : long_requests(8, 1000)) world.submit(request);
    world.finish();
    const SchedulerStats stats = world.scheduler.stats();
    return std::pair(static_cast<double>(world.engine.num_ahead) / static_cast<double>(stats.steps), stats);
  };
  const auto [dear_ahead, dear] = run(0.1);
  EXPECT_LT(0.9, dear_ahead);
  EXPECT_LT(0, dear.drafted_tokens);
  EXPECT_LT(dear.drafted_tokens, dear.reply_tokens / 10);
  const auto [cheap_ahead, cheap] = run(1e-5);
  EXPECT_LT(cheap_ahead, 0.1);
  EXPECT_LT(2 * cheap.steps, dear.steps + 200);
  EXPECT_LT(dear.reply_tokens, 2 * cheap.drafted_tokens);
}

TEST(Speculation, ItIsSaidOnceWhenDraftsAreHardlyEverRight) {
  for (const bool right : {false, true}) {
    std::vector<std::string> warnings;
    SchedulerWorld world({.queues = true, .draft_quality = 1},
                         {.speculate = 2, .draft_schedule = false, .warn = [&](const std::string& sentence) {
                            warnings.push_back(sentence);
                          }});
    world.engine.drafts_fail = !right;
    world.submit(request_of(1, {.temperature = 1, .seed = 1}, 200));
    world.finish();
    EXPECT_TRUE(warnings.empty()) << "too few steps to say";
    world.submit(request_of(2, {.temperature = 1, .seed = 2}, 900));
    world.finish();
    if (right) {
      EXPECT_TRUE(warnings.empty());
      continue;
    }
    ASSERT_EQ(warnings.size(), 1u);
    EXPECT_NE(warnings[0].find("1.000 tokens a step after 256 steps with drafts"), std::string::npos)
        << warnings[0];
  }
}

TEST(Speculation, DraftsNothingThatTheReplyHasNoRoomFor) {
  SchedulerWorld world({.pools = {.num_pages = 1}, .draft_quality = 1}, {.speculate = 4});
  const auto two = world.submit(request_of(1, {.seed = 1}, 2));
  world.finish();
  EXPECT_EQ(two.reply->summary->drafted_tokens, 0);
  const auto four = world.submit(request_of(1, {.seed = 1}, 4));
  world.finish();
  EXPECT_EQ(four.reply->summary->drafted_tokens, 2);
  Request full = request_of(1, {.seed = 1}, 0);
  full.prompt = prompt_of(250, 5);
  const auto to_the_brim = world.submit(full);
  world.finish();
  expect_reply(*to_the_brim.reply, expected_reply(full, kPageTokens));
}

TEST(Speculation, GoesOnWithoutDraftsWhenTheyFail) {
  SchedulerWorld world({.draft_quality = 1}, {.speculate = 3});
  world.engine.drafts_fail = true;
  const Request request = request_of(1, {.seed = 1}, 20);
  const auto submitted = world.submit(request);
  world.finish();
  expect_reply(*submitted.reply, expected_reply(request, 256000));
  EXPECT_EQ(submitted.reply->summary->drafted_tokens, 0);
}

/// Probabilities of top-k 3 after `history`, by token.
std::map<TokenId, double> probabilities_after(History history) {
  std::vector<float> logits(kFakeVocab);
  fake_logits(history, logits);
  std::vector<TokenId> order(kFakeVocab);
  std::iota(order.begin(), order.end(), 0);
  const auto logit = [&](TokenId id) { return logits[static_cast<std::size_t>(id)]; };
  std::ranges::sort(order, [&](TokenId a, TokenId b) { return logit(a) > logit(b); });
  order.resize(3);
  std::map<TokenId, double> probabilities;
  double total = 0;
  for (const TokenId id : order) total += std::exp(logit(id) - logit(order[0]));
  for (const TokenId id : order) probabilities[id] = std::exp(logit(id) - logit(order[0])) / total;
  return probabilities;
}

TEST(Speculation, DistributionIsExact) {
  // All 27 replies of three tokens, the latter two drafted by a model that is often wrong, against their
  // probabilities.
  constexpr int kNumSeeds = 6000;
  const auto prompt = prompt_of(9, 77);
  std::map<std::vector<TokenId>, double> probabilities;
  const History start = after(kNoHistory, prompt);
  for (const auto& [first, p] : probabilities_after(start)) {
    const History second_history = after(start, first);
    for (const auto& [second, q] : probabilities_after(second_history)) {
      for (const auto& [third, r] : probabilities_after(after(second_history, second))) {
        probabilities[{first, second, third}] = p * q * r;
      }
    }
  }
  SchedulerWorld world({.draft_quality = 0.5}, {.max_queue = kNumSeeds, .speculate = 3});
  std::vector<std::shared_ptr<RecordedReply>> replies;
  for (int seed = 0; seed < kNumSeeds; ++seed) {
    Request request;
    request.prompt = prompt;
    request.sampling = {.top_k = 3, .seed = seed};
    request.max_tokens = 4;  // room for two drafts after the first token
    replies.push_back(world.submit(std::move(request)).reply);
  }
  world.finish();
  std::map<std::vector<TokenId>, int> counts;
  for (const auto& reply : replies) {
    auto ids = reply->ids();
    ids.resize(3);
    ++counts[ids];
  }
  double chi_square = 0;
  for (const auto& [ids, probability] : probabilities) {
    const double expected = probability * kNumSeeds;
    EXPECT_GT(expected, 5);
    chi_square += (counts[ids] - expected) * (counts[ids] - expected) / expected;
    counts.erase(ids);
  }
  EXPECT_TRUE(counts.empty()) << "a reply that cannot be";
  EXPECT_LT(chi_square, 78);  // 26 degrees of freedom: chance alone exceeds that once in two million
  const SchedulerStats stats = world.scheduler.stats();
  EXPECT_LT(0, stats.accepted_tokens);
  EXPECT_LT(stats.accepted_tokens, stats.drafted_tokens);
}

}  // namespace
}  // namespace baleen
