// Decoding a step ahead of the host: the same tokens, and the same sequence behind them, as step by step.
#include <gtest/gtest.h>

#include <algorithm>

#include "engine/engine.h"
#include "tests/support/compare.h"
#include "tests/support/random_checkpoint.h"
#include "tests/support/run_sequence.h"
#include "tests/support/speculate.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/test_device.h"

namespace baleen {
namespace {

constexpr std::int64_t kVocab = 512;  // of tiny-flash

const test::RandomCheckpoint& checkpoint() {
  static const test::RandomCheckpoint tiny("tiny-flash");
  return tiny;
}

EngineOptions options() {
  return {.device = test::device(),
          .num_threads = 1,
          .max_batch_tokens = 64,
          .max_logit_rows = 64,
          .max_sequences = 2,
          .cache_tokens = 2048,
          .prefix_cache = true,
          .choose_on_device = true};
}

/// Queues a step of one token of a sequence, greedy.
std::optional<Failure> queue(Engine& engine, SequenceId sequence, TokenId token) {
  const SampleRow greedy;
  const StepInput input{sequence, {&token, 1}, WantedLogits::kLast, {&greedy, 1}};
  return engine.queue({&input, 1});
}

std::vector<float> values(const ConstActivations<2>& logits) {
  return {logits.data(), logits.data() + logits.size()};
}

TEST(Ahead, TokensAndSequenceAreThoseOfSingleSteps) {
  constexpr std::size_t kTokens = 280;  // beyond a page
  const std::vector<TokenId> prompt = test::random_tokens(20, kVocab, 3);
  Engine engine(checkpoint().path(), options());
  const SequenceId by_step = *engine.open({}), ahead = *engine.open({});

  std::vector<TokenId> want{test::best(test::step(engine, by_step, prompt, WantedLogits::kLast))};
  while (want.size() < kTokens) {
    want.push_back(test::best(test::step(engine, by_step, std::span(want).last(1), WantedLogits::kLast)));
  }

  std::vector<TokenId> got{test::best(test::step(engine, ahead, prompt, WantedLogits::kLast))};
  ASSERT_FALSE(queue(engine, ahead, got.front()));
  while (got.size() < kTokens) {
    if (got.size() + 1 < kTokens) {
      ASSERT_FALSE(queue(engine, ahead, kNoToken));
    }
    const Result<StepOutput> output = engine.collect();
    ASSERT_TRUE(output) << output.error();
    got.push_back(output.value().chosen.front());
  }
  EXPECT_EQ(got, want);
  EXPECT_EQ(engine.length(ahead), engine.length(by_step));
  const std::vector<TokenId> more = test::random_tokens(5, kVocab, 4);
  const test::SequenceLogits after = test::feed(engine, ahead, more, 2);
  EXPECT_SAME_BITS(after.main, test::feed(engine, by_step, more, 2).main);

  // Its pages are found again by the tokens that were chosen.
  engine.close(ahead, true);
  std::vector<TokenId> text = prompt;
  text.insert(text.end(), want.begin(), want.end());
  const SequenceId again = *engine.open(text);
  EXPECT_EQ(engine.length(again), kPageTokens);
}

TEST(Ahead, ASequenceMayBeClosedWithStepsUnderWay) {
  Engine engine(checkpoint().path(), options());
  const SequenceId sequence = *engine.open({}), other = *engine.open({});
  const std::vector<TokenId> prompt = test::random_tokens(20, kVocab, 3);
  const TokenId first = test::best(test::step(engine, sequence, prompt, WantedLogits::kLast));
  ASSERT_FALSE(queue(engine, sequence, first));
  ASSERT_FALSE(queue(engine, sequence, kNoToken));
  engine.close(sequence, false);
  ASSERT_TRUE(engine.collect());
  ASSERT_TRUE(engine.collect());
  EXPECT_EQ(test::best(test::step(engine, other, prompt, WantedLogits::kLast)), first);
}

TEST(Ahead, SequencesMayJoinLeaveAndGoOnSideBySide) {
  Engine engine(checkpoint().path(), options());
  const std::vector<TokenId> prompt = test::random_tokens(30, kVocab, 3);
  const auto alone = [&](std::size_t length, std::size_t count) {
    const SequenceId id = *engine.open({});
    std::vector<TokenId> tokens{
        test::best(test::step(engine, id, std::span(prompt).first(length), WantedLogits::kLast))};
    while (tokens.size() < count) {
      tokens.push_back(test::best(test::step(engine, id, std::span(tokens).last(1), WantedLogits::kLast)));
    }
    engine.close(id, false);
    return tokens;
  };
  const std::vector<TokenId> want_a = alone(20, 4), want_b = alone(30, 2);

  const SampleRow greedy;
  const std::span draw(&greedy, 1);
  const TokenId same = kNoToken;
  const std::span<const TokenId> go_on(&same, 1);
  const SequenceId a = *engine.open({}), b = *engine.open({});
  std::vector<TokenId> got_a, got_b;
  const auto collect = [&](std::vector<std::vector<TokenId>*> receivers) {
    const Result<StepOutput> output = engine.collect();
    ASSERT_TRUE(output) << output.error();
    ASSERT_EQ(output.value().chosen.size(), receivers.size());
    for (std::size_t i = 0; i < receivers.size(); ++i) receivers[i]->push_back(output.value().chosen[i]);
  };
  const auto part = [](SequenceId id, std::span<const TokenId> tokens, WantedLogits wanted,
                       std::span<const SampleRow> draws) {
    return StepInput{id, tokens, wanted, draws};
  };
  const std::vector first{part(a, std::span(prompt).first(20), WantedLogits::kLast, draw),
                          part(b, std::span(prompt).first(11), WantedLogits::kNone, {})};
  ASSERT_FALSE(engine.queue(first));
  const std::vector second{part(b, std::span(prompt).subspan(11), WantedLogits::kLast, draw),
                           part(a, go_on, WantedLogits::kLast, draw)};
  ASSERT_FALSE(engine.queue(second));
  collect({&got_a});
  const std::vector third{part(a, go_on, WantedLogits::kLast, draw),
                          part(b, go_on, WantedLogits::kLast, draw)};
  ASSERT_FALSE(engine.queue(third));
  collect({&got_b, &got_a});
  engine.close(b, true);
  const std::vector fourth{part(a, go_on, WantedLogits::kLast, draw)};
  ASSERT_FALSE(engine.queue(fourth));
  collect({&got_a, &got_b});
  collect({&got_a});
  EXPECT_EQ(got_a, want_a);
  EXPECT_EQ(got_b, want_b);
}

TEST(Ahead, OneStepMayChooseForSomeAndHaveLogitsOfOthers) {
  Engine engine(checkpoint().path(), options());
  const std::vector<TokenId> prompt = test::random_tokens(30, kVocab, 3);
  const SequenceId a = *engine.open({}), b = *engine.open({});
  const SampleRow greedy;
  const std::vector<StepInput> inputs{{a, std::span(prompt).first(20), WantedLogits::kLast, {}},
                                      {b, prompt, WantedLogits::kLast, {&greedy, 1}}};
  const Result<StepOutput> output = engine.step(inputs);
  ASSERT_TRUE(output) << output.error();
  ASSERT_EQ(output.value().chosen.size(), 1u);
  const TokenId of_b = output.value().chosen.front();
  const std::vector<float> of_a = values(output.value().logits);
  ASSERT_EQ(of_a.size(), static_cast<std::size_t>(kVocab));
  engine.close(a, false);
  engine.close(b, false);
  const SequenceId again = *engine.open({});
  EXPECT_SAME_BITS(values(test::step(engine, again, std::span(prompt).first(20), WantedLogits::kLast).logits),
                   of_a);
  engine.close(again, false);
  EXPECT_EQ(test::best(test::step(engine, *engine.open({}), prompt, WantedLogits::kLast)), of_b);
}

TEST(Ahead, PagesAreArchivedByTheTokensThatWereChosen) {
  const test::TemporaryFolder folder;
  EngineOptions with = options();
  with.disk = DiskCacheOptions{.folder = folder.path(), .budget_bytes = std::int64_t{1} << 30};
  std::vector<TokenId> text = test::random_tokens(20, kVocab, 3);
  {
    Engine engine(checkpoint().path(), with);
    const SequenceId sequence = *engine.open(text);
    text.push_back(test::best(test::step(engine, sequence, text, WantedLogits::kLast)));
    ASSERT_FALSE(queue(engine, sequence, text.back()));
    while (std::ssize(text) < kPageTokens + 2) {
      ASSERT_FALSE(queue(engine, sequence, kNoToken));
      text.push_back(engine.collect().value().chosen.front());
    }
    engine.close(sequence, true);
    ASSERT_TRUE(engine.collect());
  }
  Engine engine(checkpoint().path(), with);
  EXPECT_EQ(engine.length(*engine.open(text)), kPageTokens);
}

TEST(Ahead, QueuedDraftsAndTheirStepsAreThoseOfTheLoop) {
  EngineOptions with = options();
  with.drafts = true;
  with.max_draft_tokens = 3;
  Engine engine(checkpoint().path(), with);
  const test::Speculated by_link = test::speculate(engine, false), queued = test::speculate(engine, true);
  EXPECT_EQ(queued.drafted, by_link.drafted);
  EXPECT_EQ(queued.tokens[0], by_link.tokens[0]);
  EXPECT_EQ(queued.tokens[1], by_link.tokens[1]);
}

/// Steps without drafts run ahead of each other under a draft head too, which then drafts what it would have.
TEST(Ahead, LeavesTheDraftHeadWhatSingleStepsLeave) {
  EngineOptions with = options();
  with.drafts = true;
  with.max_draft_tokens = 3;
  Engine engine(checkpoint().path(), with);
  ASSERT_TRUE(engine.limits().runs_ahead);
  const std::vector<TokenId> prompt = test::random_tokens(250, kVocab, 3);
  for (const std::int64_t end : {255, 256, 257, 270}) {  // around the end of a page
    const SequenceId by_step = *engine.open({}), ahead = *engine.open({});
    std::vector<TokenId> want, got;
    for (const SequenceId id : {by_step, ahead}) {
      static_cast<void>(test::feed(engine, id, std::span(prompt).first(249), 60));
      (id == ahead ? got : want)
          .push_back(test::best(test::step(engine, id, std::span(prompt).last(1), WantedLogits::kLast)));
    }
    while (engine.length(by_step) < end)
      want.push_back(test::best(test::step(engine, by_step, std::span(want).last(1), WantedLogits::kLast)));
    ASSERT_FALSE(queue(engine, ahead, got.front()));
    while (got.size() < want.size()) {
      if (engine.length(ahead) < end) {
        ASSERT_FALSE(queue(engine, ahead, kNoToken));
      }
      got.push_back(engine.collect().value().chosen.front());
    }
    ASSERT_EQ(got, want);
    std::vector<float> drafted[2];
    for (const SequenceId id : {by_step, ahead}) {
      ASSERT_TRUE(engine.reserve(id, 4));
      for (std::int64_t depth = 0; depth < 3; ++depth) {
        const DraftInput input{id, want.back()};
        const std::vector<float> row = values(engine.draft({&input, 1}, depth).value().logits);
        drafted[id == ahead].insert(drafted[id == ahead].end(), row.begin(), row.end());
      }
    }
    EXPECT_SAME_BITS(drafted[1], drafted[0]) << end;
    engine.close(by_step, false);
    engine.close(ahead, false);
  }
}

TEST(Ahead, WhatIsWrongWithATokenOrTheRoomIsRefused) {
  Engine engine(checkpoint().path(), options());
  const SequenceId sequence = *engine.open({});
  const std::vector<TokenId> prompt = test::random_tokens(64, kVocab, 3);
  EXPECT_TRUE(queue(engine, sequence, TokenId{kVocab}));
  EXPECT_EQ(engine.length(sequence), 0);
  while (engine.reserve(sequence, 64))
    static_cast<void>(test::step(engine, sequence, prompt, WantedLogits::kNone));
  while (engine.reserve(sequence, 1)) {
    static_cast<void>(test::step(engine, sequence, std::span(prompt).first(1), WantedLogits::kNone));
  }
  EXPECT_TRUE(queue(engine, sequence, 1));
}

}  // namespace
}  // namespace baleen
