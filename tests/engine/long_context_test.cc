// Far positions: memory that does not grow with them, and the same rules there as at the beginning.
#include <gtest/gtest.h>

#include "tests/support/compare.h"
#include "tests/support/random_checkpoint.h"
#include "tests/support/run_sequence.h"
#include "tests/support/test_device.h"

namespace baleen {
namespace {

const test::RandomCheckpoint& three_layers() {
  static const test::RandomCheckpoint checkpoint(
      with_layers(preset_config("tiny-flash"), 3));  // one of each kind
  return checkpoint;
}

EngineOptions options(std::int64_t cache_tokens) {
  return {.device = test::device(),
          .num_threads = 2,
          .max_batch_tokens = 512,
          .max_logit_rows = 32,
          .cache_tokens = cache_tokens,
          .drafts = true};
}

TEST(LongContext, TwentyThousandTokensInFourWindowPages) {
  constexpr std::int64_t kTokens = 20'000;
  Engine engine(three_layers().path(), options(kTokens));
  // Window rows of all positions would take 79 pages; these are what one sequence needs at a time.
  EXPECT_LE(engine.plan().capacity.num_window_pages, 4);
  EXPECT_EQ(engine.plan().capacity.num_pages, 79);
  const std::vector<TokenId> tokens = test::random_tokens(512, 512, 1);
  const SequenceId sequence = *engine.open({});
  for (std::int64_t fed = 0; fed < kTokens;) {
    const auto count = std::min<std::int64_t>(512, kTokens - fed);
    const StepOutput output = test::step(
        engine, sequence, std::span(tokens).first(static_cast<std::size_t>(count)), WantedLogits::kLast);
    ASSERT_EQ(output.logits.extent(0), 1);
    fed += count;
  }
  EXPECT_EQ(engine.length(sequence), kTokens);
  const StepInput more{sequence, std::span(tokens).first(512), WantedLogits::kNone};
  EXPECT_FALSE(engine.step({&more, 1}));  // the last page has room for 224
}

/// Logits of 12 tokens after a made-up history, fed so many a step.
test::SequenceLogits after(std::int64_t history, std::size_t chunk, std::vector<ForcedVariant> forced = {}) {
  EngineOptions with = options(1 << 20);
  with.forced_variants = forced;
  with.precision = Precision::kExact;
  Engine engine(three_layers().path(), with);
  const SequenceId sequence = *engine.open({});
  engine.fabricate_history(sequence, history);
  return test::feed(engine, sequence, test::random_tokens(12, 512, 1), chunk);
}

TEST(LongContext, CutsDoNotShowAcrossTheOriginalContext) {
  BALEEN_CPU_ONLY();
  for (const std::int64_t history : {65'530, 131'064}) {
    const test::SequenceLogits whole = after(history, 12);
    for (const std::size_t chunk : {1, 5}) {
      const test::SequenceLogits cut = after(history, chunk);
      EXPECT_SAME_BITS(cut.main, whole.main) << history;
      EXPECT_SAME_BITS(cut.mtp, whole.mtp) << history;
    }
  }
}

TEST(LongContext, SimdAgreesWithPlainLoopsBeyondTheOriginalContext) {
  BALEEN_CPU_ONLY();
  EXPECT_CLOSE(after(70'000, 12).main, after(70'000, 12, {{"", "reference"}}).main, {.norm = 1e-5});
}

/// Rotary positions are relative: in layers that see the window alone, a text reads the same wherever it
/// stands, once what was before it is out of sight.
TEST(LongContext, ATextAcrossTheOriginalContextReadsAsAtTheBeginning) {
  BALEEN_CPU_ONLY();
  ModelConfig config = with_layers(preset_config("tiny-flash"), 3);
  config.compress_ratios = {0, 0, 0, 0};
  const test::RandomCheckpoint checkpoint(config);
  const auto last_logits = [&](std::int64_t history) {
    EngineOptions with = options(1 << 20);
    with.precision = Precision::kExact;
    Engine engine(checkpoint.path(), with);
    const SequenceId sequence = *engine.open({});
    engine.fabricate_history(sequence, history);
    const std::vector<TokenId> tokens = test::random_tokens(542, 512, 1);
    static_cast<void>(test::step(engine, sequence, std::span(tokens).first(512), WantedLogits::kNone));
    return test::feed(engine, sequence, std::span(tokens).last(30), 30);
  };
  const test::SequenceLogits at_beginning = last_logits(0), across = last_logits(65'536 - 530);
  // An angle is a float32 product: at 65,536 it is off by up to 0.004.
  EXPECT_CLOSE(across.main, at_beginning.main, {.norm = 2e-3});
  EXPECT_CLOSE(across.mtp, at_beginning.mtp, {.norm = 2e-3});
}

TEST(LongContext, TheLastPositionOfTheContext) {
  Engine engine(three_layers().path(), options(1 << 20));
  const SequenceId sequence = *engine.open({});
  engine.fabricate_history(sequence, (1 << 20) - 2);
  const std::vector<TokenId> tokens = test::random_tokens(3, 512, 1);
  EXPECT_NO_THROW(static_cast<void>(test::feed(engine, sequence, std::span(tokens).first(2), 2)));
  EXPECT_EQ(engine.length(sequence), 1 << 20);
  EXPECT_THROW(static_cast<void>(test::step(engine, sequence, std::span(tokens).first(1))),
               std::runtime_error);
}

}  // namespace
}  // namespace baleen
