// Sequences of an engine: what a step refuses, what a refusal leaves behind, and that pages and slots come
// back.
#include "engine/engine.h"

#include <gtest/gtest.h>

#include <functional>

#include "tests/support/compare.h"
#include "tests/support/random_checkpoint.h"
#include "tests/support/run_sequence.h"
#include "tests/support/test_device.h"

namespace baleen {
namespace {

ModelConfig short_context(std::int64_t max_positions) {
  ModelConfig config = with_layers(preset_config("tiny-flash"), 3);
  config.max_position_embeddings = max_positions;
  return config;
}

const test::RandomCheckpoint& three_layers() {
  static const test::RandomCheckpoint checkpoint(short_context(1 << 20));
  return checkpoint;
}

EngineOptions options(std::int64_t max_sequences, std::int64_t cache_tokens,
                      std::int64_t max_batch_tokens = 512) {
  return {.device = test::device(),
          .num_threads = 1,
          .max_batch_tokens = max_batch_tokens,
          .max_logit_rows = std::min<std::int64_t>(max_batch_tokens, 64),
          .max_sequences = max_sequences,
          .cache_tokens = cache_tokens};
}

std::string refusal(Engine& engine, std::span<const StepInput> inputs) {
  const Result<StepOutput> output = engine.step(inputs);
  return output ? "" : output.error();
}

std::string refusal(Engine& engine, SequenceId sequence, std::span<const TokenId> tokens,
                    WantedLogits wanted = WantedLogits::kLast) {
  const StepInput input{sequence, tokens, wanted};
  return refusal(engine, {&input, 1});
}

std::vector<float> last_logits(Engine& engine, SequenceId sequence, std::span<const TokenId> tokens) {
  const auto row = test::step(engine, sequence, tokens, WantedLogits::kLast).logits.row(0);
  return {row.begin(), row.end()};
}

TEST(Engine, RefusesAStepWithASentenceAndChangesNothing) {
  Engine engine(three_layers().path(), options(1, 1024, 100));
  const std::vector<TokenId> tokens = test::random_tokens(101, 512, 1);
  const std::vector<float> want = last_logits(engine, *engine.open({}), std::span(tokens).first(50));
  engine.close(SequenceId{0}, false);

  const SequenceId sequence = *engine.open({});
  static_cast<void>(test::step(engine, sequence, std::span(tokens).first(20)));
  const auto expect = [&](const std::string& sentence, const std::string& part) {
    EXPECT_NE(sentence.find(part), std::string::npos) << sentence;
    EXPECT_EQ(engine.length(sequence), 20);
  };
  expect(refusal(engine, sequence, std::vector<TokenId>{3, 512}), "token id 512 at position 21");
  expect(refusal(engine, sequence, std::vector<TokenId>{-1}), "ids 0 to 511");
  expect(refusal(engine, sequence, {}), "without tokens");
  expect(refusal(engine, std::span<const StepInput>()), "a step of 0 tokens");
  expect(refusal(engine, sequence, tokens), "a step of 101 tokens: this engine takes 1 to 100");
  expect(refusal(engine, sequence, std::span(tokens).first(65), WantedLogits::kAll), "room for 64");
  EXPECT_SAME_BITS(last_logits(engine, sequence, std::span(tokens).subspan(20, 30)), want);
}

TEST(Engine, StopsAtTheModelsContext) {
  const test::RandomCheckpoint checkpoint(short_context(300));
  Engine engine(checkpoint.path(), options(1, 0));
  EXPECT_EQ(engine.context_tokens(), 300);
  const std::vector<TokenId> tokens = test::random_tokens(301, 512, 1);
  const SequenceId sequence = *engine.open({});
  EXPECT_NE(refusal(engine, sequence, tokens).find("the model's context is 300"), std::string::npos);
  EXPECT_EQ(refusal(engine, sequence, std::span(tokens).first(300)), "");
  EXPECT_NE(refusal(engine, sequence, std::span(tokens).last(1)), "");
  EXPECT_EQ(engine.length(sequence), 300);
}

TEST(Engine, StopsWhenPagesAreOutAndGoesOnWhenTheyComeBack) {
  const std::vector<TokenId> tokens = test::random_tokens(400, 512, 1);
  Engine roomy(three_layers().path(), options(1, 1024));
  const SequenceId undisturbed = *roomy.open({});
  static_cast<void>(last_logits(roomy, undisturbed, std::span(tokens).first(256)));
  const std::vector<float> want = last_logits(roomy, undisturbed, std::span(tokens).subspan(256, 1));

  Engine engine(three_layers().path(), options(2, 256));  // two pages
  const SequenceId first = *engine.open({}), second = *engine.open({});
  EXPECT_EQ(engine.open({}), std::nullopt);
  EXPECT_EQ(refusal(engine, first, std::span(tokens).first(256)), "");
  EXPECT_EQ(refusal(engine, second, std::span(tokens).first(10)), "");
  const std::string sentence = refusal(engine, first, std::span(tokens).subspan(256, 1));
  EXPECT_NE(sentence.find("no room in the cache for position 256"), std::string::npos) << sentence;
  engine.close(second, false);
  EXPECT_SAME_BITS(last_logits(engine, first, std::span(tokens).subspan(256, 1)), want);
}

TEST(Engine, AStepThatFailsForOneTakesNothingForOthers) {
  const std::vector<TokenId> tokens = test::random_tokens(400, 512, 1);
  Engine engine(three_layers().path(), options(2, 512));  // three pages
  const SequenceId first = *engine.open({}), second = *engine.open({});
  const StepInput both[] = {{first, std::span(tokens).first(257), WantedLogits::kNone},
                            {second, std::span(tokens).first(255), WantedLogits::kNone}};
  ASSERT_EQ(refusal(engine, both), "");
  engine.close(first, false);
  const SequenceId third = *engine.open({});
  const StepInput too_much[] = {{third, std::span(tokens).first(100), WantedLogits::kNone},
                                {second, std::span(tokens).first(400), WantedLogits::kNone}};
  ASSERT_NE(refusal(engine, too_much), "");  // one page and two more of two
  // The page that `third` would have had is free for `second`.
  EXPECT_EQ(refusal(engine, second, std::span(tokens).first(400)), "");
  EXPECT_EQ(engine.length(second), 655);
}

TEST(Engine, WindowPagesSufficeForSequencesThatComeOneAfterTheOther) {
  constexpr std::int64_t kSequences = 8;
  Engine engine(three_layers().path(), options(kSequences, kSequences * 1024));
  const std::vector<TokenId> tokens = test::random_tokens(512, 512, 1);
  for (std::int64_t i = 0; i < kSequences; ++i) {
    const SequenceId sequence = *engine.open({});
    for (int chunk = 0; chunk < 2; ++chunk)
      EXPECT_EQ(refusal(engine, sequence, tokens), "") << "sequence " << i;
  }
}

TEST(Engine, WindowPagesSufficeForTheWorstAlignment) {
  // 130 tokens after 383: the window's first position ends a page, the step's last begins another.
  constexpr std::int64_t kSequences = 8;
  Engine engine(three_layers().path(), options(kSequences, kSequences * 1024, kSequences * 130));
  const std::vector<TokenId> tokens = test::random_tokens(383, 512, 1);
  std::vector<StepInput> inputs;
  for (std::int64_t i = 0; i < kSequences; ++i) {
    const SequenceId sequence = *engine.open({});
    EXPECT_EQ(refusal(engine, sequence, tokens), "");
    inputs.push_back({sequence, std::span(tokens).first(130), WantedLogits::kNone});
  }
  EXPECT_EQ(refusal(engine, inputs), "");
}

TEST(Engine, OptionsThatCannotBeMet) {
  const auto refused = [](const EngineOptions& wanted) {
    try {
      Engine engine(three_layers().path(), wanted);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_NE(refused({.device = test::device(), .num_threads = -1}).find("1 to 1024"), std::string::npos);
  EXPECT_NE(refused({.max_batch_tokens = 0}).find("tokens a step"), std::string::npos);
  EXPECT_NE(refused({.max_sequences = 0}).find("sequences"), std::string::npos);
  EXPECT_NE(refused({.max_batch_tokens = 8, .max_logit_rows = 9}).find("9 rows"), std::string::npos);
  EXPECT_NE(refused({.cache_tokens = (1 << 20) + 1}).find("expected at most 1,048,576"), std::string::npos);
  ModelConfig config = short_context(1000);
  config.num_nextn_predict_layers = 0;
  config.compress_ratios.pop_back();
  const test::RandomCheckpoint without_mtp(config);
  EXPECT_THROW(Engine(without_mtp.path(), {.drafts = true}), Error);
  EXPECT_NO_THROW(Engine(without_mtp.path(), {.device = test::device(), .num_threads = 1}));
}

}  // namespace
}  // namespace baleen
