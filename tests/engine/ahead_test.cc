// Decoding a step ahead of the host: the same tokens, and the same sequence behind them, as step by step.
#include <gtest/gtest.h>

#include <algorithm>

#include "engine/engine.h"
#include "tests/support/compare.h"
#include "tests/support/random_checkpoint.h"
#include "tests/support/run_sequence.h"
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
          .prefix_cache = true};
}

TokenId best(const StepOutput& output) {
  const auto row = output.logits.row(output.logits.extent(0) - 1);
  return static_cast<TokenId>(std::ranges::max_element(row) - row.begin());
}

TEST(Ahead, TokensAndSequenceAreThoseOfSingleSteps) {
  constexpr std::size_t kTokens = 280;  // beyond a page
  const std::vector<TokenId> prompt = test::random_tokens(20, kVocab, 3);
  Engine engine(checkpoint().path(), options());
  const SequenceId by_step = *engine.open({}), ahead = *engine.open({});

  std::vector<TokenId> want{best(test::step(engine, by_step, prompt, WantedLogits::kLast))};
  while (want.size() < kTokens) {
    want.push_back(best(test::step(engine, by_step, std::span(want).last(1), WantedLogits::kLast)));
  }

  const SampleRow greedy;
  std::vector<TokenId> got{best(test::step(engine, ahead, prompt, WantedLogits::kLast))};
  ASSERT_FALSE(engine.queue(ahead, got.front(), greedy));
  while (got.size() < kTokens) {
    if (got.size() + 1 < kTokens) {
      ASSERT_FALSE(engine.queue(ahead, std::nullopt, greedy));
    }
    const Result<TokenId> token = engine.collect();
    ASSERT_TRUE(token) << token.error();
    got.push_back(token.value());
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
  const TokenId first = best(test::step(engine, sequence, prompt, WantedLogits::kLast));
  ASSERT_FALSE(engine.queue(sequence, first, {}));
  ASSERT_FALSE(engine.queue(sequence, std::nullopt, {}));
  engine.close(sequence, false);
  EXPECT_EQ(best(test::step(engine, other, prompt, WantedLogits::kLast)), first);
}

TEST(Ahead, WhatIsWrongWithATokenOrTheRoomIsRefused) {
  Engine engine(checkpoint().path(), options());
  const SequenceId sequence = *engine.open({});
  const std::vector<TokenId> prompt = test::random_tokens(64, kVocab, 3);
  EXPECT_TRUE(engine.queue(sequence, TokenId{kVocab}, {}));
  EXPECT_EQ(engine.length(sequence), 0);
  while (engine.reserve(sequence, 64))
    static_cast<void>(test::step(engine, sequence, prompt, WantedLogits::kNone));
  while (engine.reserve(sequence, 1)) {
    static_cast<void>(test::step(engine, sequence, std::span(prompt).first(1), WantedLogits::kNone));
  }
  EXPECT_TRUE(engine.queue(sequence, 1, {}));
}

}  // namespace
}  // namespace baleen
