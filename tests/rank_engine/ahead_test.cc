// Steps of several ranks that run ahead of the host, on processors that choose as GPUs do: the same tokens as
// step by step, and as one rank.
#include <gtest/gtest.h>

#include "rank_engine/rank_engine.h"
#include "tests/support/compare.h"
#include "tests/support/random_checkpoint.h"
#include "tests/support/run_sequence.h"
#include "tests/support/speculate.h"
#include "tests/support/test_device.h"

namespace baleen {
namespace {

const test::RandomCheckpoint& tiny() {
  static const test::RandomCheckpoint checkpoint("tiny-flash");
  return checkpoint;
}

EngineOptions options(const ParallelPlan& plan, std::int64_t max_draft_tokens) {
  return test::on_device({.num_threads = 1,
                          .max_batch_tokens = 64,
                          .max_logit_rows = 64,
                          .max_sequences = 3,
                          .cache_tokens = 2048,
                          .drafts = max_draft_tokens > 0,
                          .max_draft_tokens = max_draft_tokens,
                          .choose_on_device = true,
                          .parallel = plan,
                          .overlap = {.least_prompt_rows = 2, .least_decode_rows = 2}},
                         preset_config("tiny-flash"));
}

/// Tokens of three sequences of different lengths, greedy; with `ahead` each step is begun before the one
/// before is seen. The third ends early, with a step under way.
std::vector<std::vector<TokenId>> decode(StepEngine& engine, bool ahead) {
  constexpr std::int64_t kTokens = 24;
  const SampleRow greedy;
  std::vector<SequenceId> ids;
  std::vector<std::vector<TokenId>> text;
  for (std::uint32_t i = 0; i < 3; ++i) {
    const std::vector<TokenId> prompt = test::random_tokens(12 + i, 512, i + 1);
    ids.push_back(*engine.open({}));
    text.push_back({test::best(test::step(engine, ids.back(), prompt, WantedLogits::kLast))});
  }
  std::size_t num_open = 3;
  const auto inputs_of = [&](bool by_choice) {
    static constexpr TokenId kChoice = kNoToken;
    std::vector<StepInput> inputs;
    for (std::size_t i = 0; i < num_open; ++i) {
      const TokenId* token = by_choice ? &kChoice : &text[i].back();
      inputs.push_back({ids[i], {token, 1}, WantedLogits::kLast, {&greedy, 1}});
    }
    return inputs;
  };
  const auto take = [&](const StepOutput& output, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) text[i].push_back(output.chosen[i]);
  };
  if (ahead) {
    EXPECT_FALSE(engine.queue(inputs_of(false)));
  }
  for (std::int64_t i = 0; i < kTokens; ++i) {
    if (!ahead) {
      take(engine.step(inputs_of(false)).value(), num_open);
    } else {
      const std::size_t of_the_step = num_open;
      if (i == 10) {
        engine.close(ids.back(), false);
        --num_open;
      }
      if (i + 1 < kTokens) {
        EXPECT_FALSE(engine.queue(inputs_of(true)));
      }
      take(engine.collect().value(), of_the_step);
    }
    if (!ahead && i == 10) engine.close(ids[--num_open], false);
  }
  for (std::size_t i = 0; i < num_open; ++i) engine.close(ids[i], false);
  return text;
}

TEST(RanksAhead, TokensAreThoseOfOneRankStepByStep) {
  const auto one = open_engine(tiny().path(), options({}, 0));
  const std::vector<std::vector<TokenId>> want = decode(*one, false);
  for (const ParallelPlan& plan :
       {ParallelPlan{.dp = 2}, ParallelPlan{.ep = 4}, ParallelPlan{.dp = 2, .dual_batch_overlap = true},
        ParallelPlan{.tp = 2, .o_proj_tp = 1, .sequence_parallel = true}}) {
    const auto many = open_engine(tiny().path(), options(plan, 0));
    SCOPED_TRACE(to_text(many->options().parallel));
    EXPECT_TRUE(many->limits().runs_ahead);
    EXPECT_EQ(decode(*many, false), want);
    EXPECT_EQ(decode(*many, true), want);
  }
}

TEST(RanksAhead, TensorParallelChoosesAsStepByStep) {
  const auto engine = open_engine(tiny().path(), options({.tp = 2}, 0));
  EXPECT_EQ(decode(*engine, true), decode(*engine, false));
}

TEST(RanksAhead, APipelineChoosesAndDoesNotRunAhead) {
  const auto one = open_engine(tiny().path(), options({}, 0));
  const auto engine = open_engine(tiny().path(), options({.pp = 2}, 0));
  EXPECT_TRUE(engine->limits().chooses);
  EXPECT_FALSE(engine->limits().queues);
  EXPECT_EQ(decode(*engine, false), decode(*one, false));
}

TEST(RanksAhead, QueuedDraftsAreThoseOfOneRank) {
  const test::Speculated want = test::speculate(*open_engine(tiny().path(), options({}, 3)), true);
  for (const ParallelPlan& plan :
       {ParallelPlan{.dp = 2}, ParallelPlan{.ep = 2}, ParallelPlan{.dp = 2, .dual_batch_overlap = true}}) {
    const auto engine = open_engine(tiny().path(), options(plan, 3));
    SCOPED_TRACE(to_text(engine->options().parallel));
    for (const bool queued : {false, true}) {
      const test::Speculated got = test::speculate(*engine, queued);
      EXPECT_EQ(got.drafted, want.drafted);
      EXPECT_EQ(got.tokens[0], want.tokens[0]);
      EXPECT_EQ(got.tokens[1], want.tokens[1]);
    }
  }
}

TEST(RanksAhead, ATokenOutsideTheVocabularyBeginsNothing) {
  const auto engine = open_engine(tiny().path(), options({.dp = 2}, 0));
  const SequenceId sequence = *engine->open({});
  const SampleRow greedy;
  const TokenId wrong = 512, right = 3;
  const StepInput bad{sequence, {&wrong, 1}, WantedLogits::kLast, {&greedy, 1}};
  EXPECT_TRUE(engine->queue({&bad, 1}));
  EXPECT_EQ(engine->length(sequence), 0);
  const StepInput good{sequence, {&right, 1}, WantedLogits::kLast, {&greedy, 1}};
  EXPECT_FALSE(engine->queue({&good, 1}));
  EXPECT_EQ(engine->collect().value().chosen.size(), 1U);
}

}  // namespace
}  // namespace baleen
