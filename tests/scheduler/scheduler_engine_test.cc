// The scheduler over a real engine with random weights: other requests, preemption, cache hits and drafts do
// not show.
#include <gtest/gtest.h>

#include <vector>

#include "engine/engine.h"
#include "scheduler/scheduler.h"
#include "tests/scheduler/recorded_reply.h"
#include "tests/support/random_checkpoint.h"
#include "tests/support/run_sequence.h"

namespace baleen {
namespace {

constexpr std::int64_t kVocab = 512;

std::vector<Request> requests(bool penalties) {
  const std::vector<TokenId> tokens = test::random_tokens(700, kVocab, 1);
  std::vector<Request> all;
  for (const std::int64_t length : {700, 30, 600, 257, 650, 1}) {
    Request request;
    request.prompt.assign(tokens.begin(), tokens.begin() + length);  // beginnings that the cache shares
    request.sampling.temperature = all.size() % 3 == 0 ? 0 : 0.5;
    request.sampling.seed = all.size();
    if (penalties && all.size() % 2 == 1) request.sampling.repetition_penalty = 1.2;
    request.max_tokens = 40;
    all.push_back(std::move(request));
  }
  return all;
}

struct Outcome {
  std::vector<std::vector<TokenId>> replies;
  SchedulerStats stats;
};

Outcome run(Engine& engine, const SchedulerOptions& options, bool one_at_a_time, bool penalties = true) {
  Scheduler scheduler(engine, fake_tokenizer(), options, [] { return 0.0; });
  std::vector<std::shared_ptr<RecordedReply>> replies;
  for (Request& request : requests(penalties)) {
    replies.push_back(std::make_shared<RecordedReply>());
    EXPECT_TRUE(scheduler.submit(std::move(request), replies.back()).has_value());
    while (one_at_a_time && scheduler.turn()) {
    }
  }
  while (scheduler.turn()) {
  }
  Outcome outcome{.stats = scheduler.stats()};
  for (const auto& reply : replies) {
    EXPECT_EQ(reply->summary->end, ReplyEnd::kLength) << reply->summary->error;
    outcome.replies.push_back(reply->ids());
  }
  EXPECT_EQ(outcome.stats.cache.pages.in_use, 0);
  return outcome;
}

TEST(SchedulerOverEngine, RepliesAreThoseOfOneRequestAtATime) {
  const test::RandomCheckpoint checkpoint(with_layers(preset_config("tiny-flash"), 3), 5);
  Engine alone_engine(checkpoint.path(), {.num_threads = 2, .max_batch_tokens = 512, .cache_tokens = 1024});
  const Outcome alone = run(alone_engine, {}, /*one_at_a_time=*/true);

  // Seven pages for prompts that want fourteen without sharing.
  Engine crowded_engine(checkpoint.path(), {.num_threads = 2,
                                            .max_batch_tokens = 200,
                                            .max_logit_rows = 16,
                                            .max_sequences = 4,
                                            .cache_tokens = 7 * kPageTokens,
                                            .drafts = true,
                                            .max_draft_tokens = 3,
                                            .prefix_cache = true});
  const Outcome crowded = run(crowded_engine, {.speculate = 3}, /*one_at_a_time=*/false);
  EXPECT_EQ(crowded.replies, alone.replies);
  EXPECT_LT(0, crowded.stats.drafted_tokens);
  EXPECT_LT(0, crowded.stats.cached_tokens);
  EXPECT_EQ(alone.stats.drafted_tokens, 0);
}

/// Five requests behind one beginning, one after the other: whether its end is said, or met twice, the later
/// ones find it, and say what they say alone.
TEST(SchedulerOverEngine, RequestsBehindOneBeginningFindIt) {
  const test::RandomCheckpoint checkpoint(with_layers(preset_config("tiny-flash"), 3), 5);
  const auto run_five = [&](bool cached, bool said, bool ahead, std::int64_t drafts) {
    Engine engine(checkpoint.path(), {.num_threads = 2,
                                      .max_batch_tokens = 200,
                                      .max_logit_rows = 16,
                                      .max_sequences = 2,
                                      .cache_tokens = 20 * kPageTokens,
                                      .drafts = drafts > 0,
                                      .max_draft_tokens = drafts,
                                      .prefix_cache = cached,
                                      .choose_on_device = ahead});
    Scheduler scheduler(engine, fake_tokenizer(), {.speculate = drafts}, [] { return 0.0; });
    std::vector<std::vector<TokenId>> replies;
    std::vector<std::int64_t> found;
    for (std::uint32_t i = 0; i < 5; ++i) {
      Request request;
      request.prompt = test::random_tokens(1100, kVocab, 1);
      const std::vector<TokenId> rest = test::random_tokens(300, kVocab, 10 + i);
      request.prompt.insert(request.prompt.end(), rest.begin(), rest.end());
      if (said) request.section_ends = {600, 1100};
      request.sampling.temperature = 0.5;
      request.sampling.seed = i;
      request.max_tokens = 8;
      const auto reply = std::make_shared<RecordedReply>();
      EXPECT_TRUE(scheduler.submit(std::move(request), reply).has_value());
      while (scheduler.turn()) {
      }
      replies.push_back(reply->ids());
      found.push_back(reply->summary->cached_tokens);
    }
    const SchedulerStats stats = scheduler.stats();
    const auto count = [&](PrefixEnd end) { return stats.prefix_ends[static_cast<std::size_t>(end)]; };
    if (!cached) {
      EXPECT_EQ(count(PrefixEnd::kOff), 5);
      return replies;
    }
    const std::int64_t second = said ? 1024 : 0;
    EXPECT_EQ(found, (std::vector<std::int64_t>{0, second, 1024, 1024, 1024}));
    EXPECT_EQ(count(PrefixEnd::kEmpty), 1);
    EXPECT_EQ(count(PrefixEnd::kNoTail), said ? 0 : 1);
    EXPECT_EQ(count(PrefixEnd::kDiffers), said ? 4 : 3);
    EXPECT_EQ(stats.lost_prefix_tokens, said ? 0 : 1024);
    const std::vector<RecentPrefix> recent = scheduler.recent_prefixes();
    EXPECT_EQ(recent.size(), 5U);
    EXPECT_EQ(recent.back().lookup.first_difference, 1100);
    EXPECT_EQ(recent.back().before.size(), 16U);
    EXPECT_EQ(recent.back().prompt.front(), test::random_tokens(300, kVocab, 14).front());
    return replies;
  };
  const auto alone = run_five(false, false, false, 0);
  for (const bool said : {false, true}) {
    EXPECT_EQ(run_five(true, said, false, 0), alone);
    EXPECT_EQ(run_five(true, said, true, 0), alone);
    EXPECT_EQ(run_five(true, said, false, 2), alone);
    EXPECT_EQ(run_five(true, said, true, 2), alone);
  }
}

TEST(SchedulerOverEngine, RunsAheadWithTheSameReplies) {
  const test::RandomCheckpoint checkpoint(with_layers(preset_config("tiny-flash"), 3), 5);
  const auto crowded = [&](bool chooses) {
    Engine engine(checkpoint.path(), {.num_threads = 2,
                                      .max_batch_tokens = 200,
                                      .max_logit_rows = 16,
                                      .max_sequences = 4,
                                      .cache_tokens = 7 * kPageTokens,
                                      .prefix_cache = true,
                                      .choose_on_device = chooses});
    EXPECT_EQ(engine.limits().runs_ahead, chooses);
    return run(engine, {}, /*one_at_a_time=*/false);
  };
  EXPECT_EQ(crowded(true).replies, crowded(false).replies);
}

TEST(SchedulerOverEngine, DraftsOfTheEngineLeaveTheSameReplies) {
  const test::RandomCheckpoint checkpoint(with_layers(preset_config("tiny-flash"), 3), 5);
  const auto crowded = [&](bool chooses, std::int64_t speculate) {
    Engine engine(checkpoint.path(), {.num_threads = 2,
                                      .max_batch_tokens = 200,
                                      .max_logit_rows = 16,
                                      .max_sequences = 4,
                                      .cache_tokens = 7 * kPageTokens,
                                      .drafts = speculate > 0,
                                      .max_draft_tokens = speculate,
                                      .prefix_cache = true,
                                      .choose_on_device = chooses});
    EXPECT_EQ(engine.limits().queues, chooses);
    return run(engine, {.speculate = speculate}, /*one_at_a_time=*/false, /*penalties=*/false);
  };
  const Outcome queued = crowded(true, 3), waiting = crowded(false, 3);
  EXPECT_EQ(queued.replies, waiting.replies);
  EXPECT_EQ(queued.replies, crowded(false, 0).replies);
  EXPECT_LT(0, queued.stats.drafted_tokens);
  EXPECT_LT(0, queued.stats.accepted_tokens);
  EXPECT_EQ(queued.stats.accepted_tokens, waiting.stats.accepted_tokens);
}

}  // namespace
}  // namespace baleen
