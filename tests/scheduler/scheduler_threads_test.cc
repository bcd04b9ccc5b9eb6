// The loop in a thread of its own; meant for the thread sanitizer too.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "tests/scheduler/fake_engine.h"
#include "tests/scheduler/recorded_reply.h"
#include "tests/scheduler/scheduler_world.h"

namespace baleen {
namespace {

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Request request_of(std::uint64_t family) {
  Request request;
  request.prompt = prompt_of(1 + static_cast<std::int64_t>(family % 400), family % 7);
  request.sampling.seed = family;
  request.max_tokens = 1 + static_cast<std::int64_t>(family % 23);
  return request;
}

TEST(SchedulerThreads, ClientsSubmitCancelAndWatchWhileTheLoopRuns) {
  FakeEngine engine({.pools = {.num_pages = 12, .max_sequences = 5}});
  Scheduler scheduler(engine, fake_tokenizer(), {.max_queue = 30, .speculate = 2}, seconds_now);
  std::atomic<std::int64_t> accepted{0}, ended{0};
  {
    std::jthread loop([&](std::stop_token stop) { scheduler.run(stop); });
    std::vector<std::jthread> clients;
    for (std::uint64_t client = 0; client < 4; ++client) {
      clients.emplace_back([&, client] {
        for (std::uint64_t i = 0; i < 60; ++i) {
          auto reply = std::make_shared<RecordedReply>();
          reply->on_finished = [&] { ++ended; };
          const auto id = scheduler.submit(request_of(client * 1000 + i), reply);
          if (!id) {
            std::this_thread::yield();
            continue;
          }
          ++accepted;
          if (i % 5 == 0) scheduler.cancel(*id);
          EXPECT_LE(scheduler.stats().waiting, 30 + 5);
        }
      });
    }
    clients.clear();
    scheduler.drain();
    for (int i = 0; i < 10000 && !scheduler.idle(); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_TRUE(scheduler.idle());
    EXPECT_EQ(ended, accepted);
  }
  EXPECT_GT(accepted, 0);
  const SchedulerStats stats = scheduler.stats();
  EXPECT_EQ(stats.submitted, accepted);
  EXPECT_EQ(stats.finished + stats.cancelled + stats.failed, accepted);
  EXPECT_EQ(stats.cache.pages.in_use, 0);
}

TEST(SchedulerThreads, StopCancelsWhatIsLeftAndRefusesMore) {
  FakeEngine engine({.pools = {.max_sequences = 2}});
  Scheduler scheduler(engine, fake_tokenizer(), {}, seconds_now);
  std::vector<std::shared_ptr<RecordedReply>> replies;
  std::atomic<bool> begun{false};
  {
    std::jthread loop([&](std::stop_token stop) { scheduler.run(stop); });
    for (std::uint64_t i = 0; i < 5; ++i) {
      replies.push_back(std::make_shared<RecordedReply>());
      replies.back()->on_piece = [&] { begun = true; };
      Request request = request_of(i);
      request.max_tokens = 200000;
      EXPECT_TRUE(scheduler.submit(request, replies.back()).has_value());
    }
    for (int i = 0; i < 10000 && !begun; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_TRUE(begun);
  for (const auto& reply : replies) {
    ASSERT_TRUE(reply->summary.has_value());
    EXPECT_EQ(reply->summary->end, ReplyEnd::kCancelled);
  }
  EXPECT_FALSE(scheduler.submit(request_of(1), std::make_shared<RecordedReply>()).has_value());
  EXPECT_TRUE(scheduler.idle());
}

TEST(SchedulerThreads, AnIdleLoopWakesForARequest) {
  FakeEngine engine({});
  Scheduler scheduler(engine, fake_tokenizer(), {}, seconds_now);
  const std::jthread loop([&](std::stop_token stop) { scheduler.run(stop); });
  for (std::uint64_t round = 0; round < 20; ++round) {
    std::atomic<bool> done{false};
    auto reply = std::make_shared<RecordedReply>();
    reply->on_finished = [&] {
      done = true;
      done.notify_one();
    };
    EXPECT_TRUE(scheduler.submit(request_of(round), reply).has_value());
    done.wait(false);
    expect_reply(*reply, expected_reply(request_of(round), 256000));
  }
}

}  // namespace
}  // namespace baleen
