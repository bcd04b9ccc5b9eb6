// Bounded replay of V4.1's decoder half: which rows go through which layers, what a sequence comes to against
// the NumPy forward pass (v41_oracle.py), and that neither pieces, batch composition, prefixes that were
// found, sequences that come back nor drafts show in it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "base/error.h"
#include "engine/engine.h"
#include "model/presets.h"
#include "tests/support/bounded_prompts.h"
#include "tests/support/compare.h"
#include "tests/support/golden_logits.h"
#include "tests/support/random_checkpoint.h"
#include "tests/support/run_sequence.h"
#include "tests/support/speculate.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/test_device.h"

namespace baleen {
namespace {

constexpr std::int64_t kTinyVocab = 4096, kReplay = 128;
/// Of tiny-v41: layers, the first of its decoder half, experts of a token.
constexpr std::size_t kLayers = 7, kDecoderBegin = 3;
constexpr std::int64_t kExpertsOfToken = 3;

const test::RandomCheckpoint& checkpoint() {
  static const test::RandomCheckpoint made(preset_config("tiny-v41"), 5, "models/stories");
  return made;
}

EngineOptions options(Precision precision = Precision::kReleased, std::int64_t replay = kReplay) {
  return {.device = test::device(),
          .precision = precision,
          .num_threads = 2,
          .max_batch_tokens = 800,
          .max_logit_rows = 400,
          .max_sequences = 3,
          .cache_tokens = 12 * kPageTokens,
          .bounded_replay_tokens = replay};
}

std::span<const TokenId> part(const std::vector<TokenId>& tokens, std::size_t begin, std::size_t end) {
  return std::span(tokens).subspan(begin, end - begin);
}

std::vector<float> behind_prompt(StepEngine& engine, SequenceId sequence, std::span<const TokenId> tokens,
                                 std::size_t prompt, std::size_t chunk = 800) {
  return test::behind_prompt(engine, sequence, tokens, prompt, chunk);
}

std::vector<float> run(StepEngine& engine, std::span<const TokenId> tokens, std::size_t prompt,
                       std::size_t chunk = 800) {
  return test::run_prompt(engine, tokens, prompt, chunk);
}

/// Rows that went through each layer since the start: each has so many experts.
std::vector<std::int64_t> rows_by_layer(Engine& engine) {
  std::vector<std::int64_t> rows;
  for (const std::vector<std::int64_t>& load : engine.expert_load()) {
    std::int64_t assignments = 0;
    for (const std::int64_t tokens : load) assignments += tokens;
    rows.push_back(assignments / kExpertsOfToken);
  }
  rows.resize(kLayers);
  return rows;
}

TEST(BoundedReplay, TheDecoderHalfComputesTheLastTokensOfAPromptAlone) {
  for (const std::size_t chunk : {800, 97}) {
    Engine engine(checkpoint().path(), options());
    const std::vector<TokenId> tokens = test::random_tokens(503, kTinyVocab, 1);
    static_cast<void>(run(engine, tokens, 500, chunk));
    std::vector<std::int64_t> want(kLayers, kReplay + 3);
    std::fill_n(want.begin(), kDecoderBegin, 503);
    EXPECT_EQ(rows_by_layer(engine), want) << "pieces of " << chunk;
  }
}

TEST(BoundedReplay, OperationsOfThePromptAreThoseOfItsRows) {
  const std::vector<TokenId> tokens = test::random_tokens(700, kTinyVocab, 1);
  const auto flops = [&](std::int64_t replay, std::string_view operation) {
    Engine engine(checkpoint().path(), options(Precision::kReleased, replay));
    const SequenceId sequence = *engine.open_prompt({}, 700);
    engine.device().set_profiling(true);
    static_cast<void>(test::step(engine, sequence, tokens, WantedLogits::kNone));
    return engine.device().profile().records().at(operation).cost.matrix_flops();
  };
  // Of 700 rows in seven layers: 700 in three and 128 in four.
  const double share = (3.0 * 700 + 4.0 * 128) / (7.0 * 700);
  for (const std::string_view operation : {"experts", "grouped_linear"})
    EXPECT_NEAR(flops(kReplay, operation) / flops(0, operation), share, 1e-6) << operation;
}

TEST(BoundedReplay, ExactAgreesWithTheOracle) {
  BALEEN_CPU_ONLY();
  const test::GoldenFile golden("tests/forward/goldens/tiny-v41-bounded.safetensors");
  const std::int64_t prompt = golden.scalar("prompt_tokens"), replay = golden.scalar("replay");
  const std::vector<TokenId> tokens = golden.ints("tokens");
  Engine engine(checkpoint().path(), options(Precision::kExact, replay));
  const SequenceId sequence = *engine.open_prompt({}, prompt);
  test::feed_quietly(engine, sequence, tokens, static_cast<std::size_t>(prompt - replay), 50);
  const auto rest = std::span(tokens).subspan(static_cast<std::size_t>(prompt - replay));
  test::expect_golden(golden, "logits", test::feed(engine, sequence, rest, 67).main);
}

class BoundedSequences : public testing::TestWithParam<Precision> {
 protected:
  void SetUp() override {
    if (GetParam() != Precision::kReleased) {
      BALEEN_CPU_ONLY();
    }
  }
};

TEST_P(BoundedSequences, PiecesAndBatchCompositionDoNotShow) {
  Engine engine(checkpoint().path(), options(GetParam()));
  const std::vector<TokenId> tokens = test::random_tokens(420, kTinyVocab, 2);
  const std::vector<float> want = run(engine, tokens, 400);
  for (const std::size_t chunk : {1, 7, 100, 256})
    EXPECT_SAME_BITS(run(engine, tokens, 400, chunk), want) << chunk;
  const std::vector<float> odd = run(engine, part(tokens, 0, 405), 397);
  for (const std::size_t chunk : {7, 90})
    EXPECT_SAME_BITS(run(engine, part(tokens, 0, 405), 397, chunk), odd) << chunk;
  // Beside a sequence that only decodes, and a prompt of another length.
  const std::vector<TokenId> others = test::random_tokens(400, kTinyVocab, 3);
  const SequenceId sequence = *engine.open_prompt({}, 400), decodes = *engine.open({}),
                   prompt = *engine.open_prompt({}, 390);
  for (std::size_t at = 0; at < 399;) {
    const std::size_t count = std::min<std::size_t>(57, 399 - at);
    const StepInput inputs[] = {{decodes, part(others, at, at + 1), WantedLogits::kLast},
                                {sequence, part(tokens, at, at + count), WantedLogits::kNone},
                                {prompt, part(others, at / 2, at / 2 + 20), WantedLogits::kNone}};
    ASSERT_TRUE(engine.step(inputs));
    at += count;
  }
  EXPECT_SAME_BITS(test::feed(engine, sequence, part(tokens, 399, 420), 1).main, want);
}

TEST_P(BoundedSequences, ShortPromptsAndPromptsWithoutItAreExact) {
  Engine bounded(checkpoint().path(), options(GetParam())),
      exact(checkpoint().path(), options(GetParam(), 0));
  const std::vector<TokenId> tokens = test::random_tokens(400, kTinyVocab, 4);
  EXPECT_SAME_BITS(run(bounded, part(tokens, 0, 160), 128), run(exact, part(tokens, 0, 160), 128));
  EXPECT_SAME_BITS(test::run_sequence(bounded, tokens, 150).main,
                   test::run_sequence(exact, tokens, 150).main);
  // And others are not.
  EXPECT_NE(run(bounded, tokens, 380), run(exact, tokens, 380));
}

/// A window for each layer of the decoder half, and one for the tokens behind the prompt.
TEST_P(BoundedSequences, AsManyTokensAsWindowsReachBackLeaveNoChange) {
  Engine wide(checkpoint().path(), options(GetParam(), 5 * 128)),
      exact(checkpoint().path(), options(GetParam(), 0));
  const std::vector<TokenId> tokens = test::random_tokens(720, kTinyVocab, 9);
  EXPECT_SAME_BITS(run(wide, tokens, 700, 300), run(exact, tokens, 700));
}

/// Whole pages of one prompt, found by longer and shorter ones, while the one that left them goes on and when
/// it has ended.
TEST_P(BoundedSequences, APrefixThatWasFoundChangesNothing) {
  EngineOptions sharing = options(GetParam());
  sharing.prefix_cache = true;
  Engine engine(checkpoint().path(), sharing), cold(checkpoint().path(), options(GetParam()));
  const std::vector<TokenId> tokens = test::random_tokens(1000, kTinyVocab, 5);
  const auto want = [&](std::size_t prompt, std::size_t end) {
    return run(cold, part(tokens, 0, end), prompt);
  };

  const SequenceId first = *engine.open_prompt(part(tokens, 0, 700), 700);
  std::vector<float> of_first = behind_prompt(engine, first, part(tokens, 0, 710), 700, 300);
  engine.share(first);
  for (const std::size_t prompt : {950, 660, 630}) {
    const SequenceId found = *engine.open_prompt(part(tokens, 0, prompt), static_cast<std::int64_t>(prompt));
    // Up to the page in which a decoder half begins, the first one's (572) or its own.
    EXPECT_EQ(engine.length(found), prompt == 630 ? 0 : 512) << prompt;
    EXPECT_SAME_BITS(behind_prompt(engine, found, part(tokens, 0, prompt + 10), prompt),
                     want(prompt, prompt + 10))
        << prompt;
    engine.close(found, true);
  }
  // The first one has gone on with its own window, whatever others left of the same tokens.
  const std::vector<float> rest = test::feed(engine, first, part(tokens, 710, 720), 1).main;
  of_first.insert(of_first.end(), rest.begin(), rest.end());
  EXPECT_SAME_BITS(of_first, want(700, 720));
  engine.close(first, true);
}

/// As after a preemption: a prompt and what followed it are fed anew.
TEST_P(BoundedSequences, ASequenceThatComesBackIsTheSame) {
  EngineOptions sharing = options(GetParam());
  sharing.prefix_cache = true;
  Engine engine(checkpoint().path(), sharing);
  const std::vector<TokenId> tokens = test::random_tokens(680, kTinyVocab, 6);
  const std::vector<float> want = run(engine, tokens, 400);
  const SequenceId before = *engine.open_prompt(part(tokens, 0, 400), 400);
  static_cast<void>(behind_prompt(engine, before, part(tokens, 0, 650), 400));
  engine.close(before, true);
  const SequenceId again = *engine.open_prompt(part(tokens, 0, 650), 400);
  EXPECT_EQ(engine.length(again), 256);
  test::feed_quietly(engine, again, tokens, 649, 100);
  EXPECT_SAME_BITS(test::feed(engine, again, part(tokens, 649, 680), 1).main,
                   std::span(want).subspan(250 * kTinyVocab));
}

INSTANTIATE_TEST_SUITE_P(Precisions, BoundedSequences,
                         testing::Values(Precision::kExact, Precision::kReleased),
                         [](const auto& tested) { return std::string(precision_name(tested.param)); });

struct Drift {
  double divergence = 0, same_best = 0;  ///< means over rows
};

Drift drift(std::span<const float> got, std::span<const float> want) {
  Drift sum;
  const std::size_t num_rows = want.size() / kTinyVocab;
  for (std::size_t row = 0; row < num_rows; ++row) {
    const auto a = want.subspan(row * kTinyVocab, kTinyVocab), b = got.subspan(row * kTinyVocab, kTinyVocab);
    double of_a = 0, of_b = 0;
    for (std::size_t i = 0; i < a.size(); ++i) of_a += std::exp(double{a[i]}), of_b += std::exp(double{b[i]});
    for (std::size_t i = 0; i < a.size(); ++i)
      sum.divergence +=
          std::exp(double{a[i]}) / of_a * (double{a[i]} - std::log(of_a) - b[i] + std::log(of_b));
    sum.same_best +=
        std::ranges::max_element(a) - a.begin() == std::ranges::max_element(b) - b.begin() ? 1 : 0;
  }
  const auto count = static_cast<double>(num_rows);
  return {sum.divergence / count, sum.same_best / count};
}

/// docs/bounded_replay.md has these figures.
TEST(BoundedReplay, MoreTokensChangeLess) {
  BALEEN_CPU_ONLY();
  constexpr std::size_t kPrompt = 700;
  std::vector<std::vector<TokenId>> texts;
  for (const std::uint32_t seed : {11, 12, 13}) texts.push_back(test::random_tokens(760, kTinyVocab, seed));
  const auto all = [&](std::int64_t replay) {
    Engine engine(checkpoint().path(), options(Precision::kExact, replay));
    std::vector<float> logits;
    for (const std::vector<TokenId>& tokens : texts) {
      const std::vector<float> one = run(engine, tokens, kPrompt);
      logits.insert(logits.end(), one.begin(), one.end());
    }
    return logits;
  };
  const std::vector<float> want = all(0);
  std::vector<Drift> of;
  for (const std::int64_t replay : {128, 256}) {
    of.push_back(drift(all(replay), want));
    RecordProperty("divergence_" + std::to_string(replay), std::to_string(of.back().divergence));
    RecordProperty("same_best_" + std::to_string(replay), std::to_string(of.back().same_best));
  }
  EXPECT_GT(of[0].divergence, 2 * of[1].divergence);
  EXPECT_GT(of[1].divergence, 0);
  EXPECT_LE(of[0].same_best, of[1].same_best);
}

/// A DSpark head has all that it wants: means of as many tokens as its window holds.
TEST(BoundedReplay, DraftsDoNotDependOnPiecesAndRepliesNotOnDrafts) {
  EngineOptions drafting = options();
  drafting.max_draft_tokens = 3;
  drafting.choose_on_device = true;
  const std::vector<TokenId> prompt = test::random_tokens(400, kTinyVocab, 7);
  std::vector<std::vector<TokenId>> all;
  for (const std::size_t chunk : {800, 130, 27}) {
    Engine engine(checkpoint().path(), drafting);
    const SequenceId sequence = *engine.open_prompt({}, 400);
    test::feed_quietly(engine, sequence, prompt, 399, chunk);
    const TokenId next =
        test::best(test::step(engine, sequence, part(prompt, 399, 400), WantedLogits::kLast));
    ASSERT_TRUE(engine.reserve(sequence, engine.limits().least_draft_room));
    all.push_back(test::draft_by_link(engine, sequence, next, 3));
  }
  EXPECT_EQ(all[1], all[0]);
  EXPECT_EQ(all[2], all[0]);
}

TEST(BoundedReplay, LogitsThatAreNotComputedAreRefused) {
  Engine engine(checkpoint().path(), options());
  const std::vector<TokenId> tokens = test::random_tokens(400, kTinyVocab, 8);
  const SequenceId sequence = *engine.open_prompt({}, 400);
  const StepInput input{sequence, part(tokens, 0, 200), WantedLogits::kLast};
  const Result<StepOutput> output = engine.step({&input, 1});
  ASSERT_FALSE(output);
  EXPECT_EQ(output.error(),
            "logits of position 199 are wanted, which went through the encoder half alone: bounded replay of "
            "this prompt begins at 272; open the sequence without it");
  EXPECT_EQ(engine.length(sequence), 0);
}

std::string refusal(const EngineOptions& asked, const ModelConfig& config) {
  try {
    static_cast<void>(resolved(asked, config));
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(BoundedReplay, WhatItCannotBeCombinedWithIsRefused) {
  const ModelConfig config = preset_config("tiny-v41");
  EXPECT_EQ(refusal(options(), config), "");
  EXPECT_EQ(
      refusal(options(Precision::kReleased, 127), config),
      "‹bounded replay› 127: the tokens behind a prompt see a window of 128; expected at least as many");
  EXPECT_EQ(
      refusal(options(), preset_config("tiny-flash")),
      "‹bounded replay›: this model has no decoder half: every layer makes entries of its own; only layers "
      "that read earlier ones' can be left out; leave it out");
  EngineOptions asked = options();
  asked.disk = DiskCacheOptions{.folder = "nowhere"};
  EXPECT_EQ(
      refusal(asked, config),
      "‹bounded replay›, with ‹disk cache›: pages of prompts whose decoder half was not computed are not "
      "kept on disk; leave out one");
}

}  // namespace
}  // namespace baleen
