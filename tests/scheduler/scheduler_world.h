/// A scheduler over a fake engine, with a clock that tests turn by hand.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "scheduler/scheduler.h"
#include "tests/scheduler/fake_engine.h"
#include "tests/scheduler/recorded_reply.h"

namespace baleen {

struct SchedulerWorld {
  explicit SchedulerWorld(const FakeEngineOptions& engine_options = {}, const SchedulerOptions& options = {})
      : engine(engine_options), scheduler(engine, fake_tokenizer(), options, [this] { return now; }) {}

  struct Submitted {
    RequestId id{};
    std::shared_ptr<RecordedReply> reply;
  };
  Submitted submit(Request request) {
    auto reply = std::make_shared<RecordedReply>();
    const auto id = scheduler.submit(std::move(request), reply);
    EXPECT_TRUE(id.has_value());
    return {id.value_or(RequestId{-1}), reply};
  }
  /// Turns until there is nothing to do; how many turns did something.
  std::int64_t finish(std::int64_t most_turns = 100000) {
    for (std::int64_t turns = 0; turns < most_turns; ++turns) {
      now += 1;
      if (!scheduler.turn()) return turns;
    }
    ADD_FAILURE() << "still not done after " << most_turns << " turns";
    return most_turns;
  }
  /// No request runs, so every page is free or the cache's.
  void expect_everything_came_back() const {
    const CacheUse use = engine.cache_use();
    EXPECT_EQ(use.pages.in_use, 0);
    EXPECT_EQ(use.window_pages.in_use, 0);
    EXPECT_EQ(use.state_slots.in_use, 0);
    EXPECT_TRUE(scheduler.idle());
  }

  double now = 0;
  FakeEngine engine;
  Scheduler scheduler;
};

/// Tokens that no other family shares.
inline std::vector<TokenId> prompt_of(std::int64_t num_tokens, std::uint64_t family) {
  std::vector<TokenId> prompt;
  for (std::int64_t i = 0; i < num_tokens; ++i) {
    const double chance = fake_chance(family, static_cast<std::uint64_t>(i));
    prompt.push_back(static_cast<TokenId>(chance * 256));
  }
  return prompt;
}

}  // namespace baleen
