// Bounded replay over ranks: the bits of one rank where plans have them, the rows of each half, and that
// neither pieces, sequences beside it nor prefixes that were found show.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <vector>

#include "engine/engine_limits.h"
#include "model/presets.h"
#include "rank_engine/rank_engine.h"
#include "tests/support/bounded_prompts.h"
#include "tests/support/compare.h"
#include "tests/support/converse.h"
#include "tests/support/damaged_checkpoint.h"
#include "tests/support/random_checkpoint.h"
#include "tests/support/test_device.h"

namespace baleen {
namespace {

constexpr std::int64_t kReplay = 128;

const test::RandomCheckpoint& checkpoint() {
  static const test::RandomCheckpoint made(preset_config("tiny-v41"), 5, "models/stories");
  return made;
}

EngineOptions options(const ParallelPlan& plan, std::int64_t max_draft_tokens = 0, bool prefix_cache = false,
                      std::int64_t replay = kReplay) {
  return test::on_device({.num_threads = 1,
                          .max_batch_tokens = 300,
                          .max_logit_rows = 300,
                          .max_sequences = 4,
                          .cache_tokens = 8192,
                          .max_draft_tokens = max_draft_tokens,
                          .bounded_replay_tokens = replay,
                          .prefix_cache = prefix_cache,
                          .parallel = plan},
                         preset_config("tiny-v41"));
}

std::unique_ptr<ModelEngine> open(const EngineOptions& with) {
  return open_engine(checkpoint().path(), with);
}

/// Prompts that end at odd places, one of them too short to be bounded, and replies with drafts.
void expect_one_ranks_bits(const ParallelPlan& plan, bool prefix_cache = false) {
  constexpr std::size_t kLengths[] = {391, 77, 262, 203};
  constexpr std::int64_t kDrafts = 2;
  const auto one = open(options({}, kDrafts, prefix_cache)),
             many = open(options(plan, kDrafts, prefix_cache));
  SCOPED_TRACE(to_text(many->options().parallel));
  EXPECT_SAME_BITS(test::converse(*many, kLengths, 3, kDrafts), test::converse(*one, kLengths, 3, kDrafts));
  EXPECT_EQ(many->expert_load(), one->expert_load());
  const CacheUse use = many->cache_use();
  EXPECT_EQ(use.pages.in_use + use.window_pages.in_use + use.state_slots.in_use, 0);
}

TEST(BoundedReplayOfRanks, DataAndExpertParallelHaveOneRanksBits) {
  expect_one_ranks_bits({.dp = 2});
  expect_one_ranks_bits({.ep = 4});
  expect_one_ranks_bits({.dp = 2, .redundant_experts = 2});
}

/// The decoder half begins a stage, or is the end of one.
TEST(BoundedReplayOfRanks, PipelinesHaveOneRanksBits) {
  expect_one_ranks_bits({.pp = 2});
  expect_one_ranks_bits({.stage_layers = {1, 6}});
  expect_one_ranks_bits({.dp = 2, .pp = 3});
}

TEST(BoundedReplayOfRanks, RowsThatAreSharedOutHaveOneRanksBits) {
  expect_one_ranks_bits({.cp = 2});
  expect_one_ranks_bits({.cp = 4});
  expect_one_ranks_bits({.cp = 2, .dp = 2, .pp = 2});
  expect_one_ranks_bits({.tp = 2, .o_proj_tp = 1, .sequence_parallel = true});
}

TEST(BoundedReplayOfRanks, GroupsThatComputePromptsHaveOneRanksBits) {
  expect_one_ranks_bits({.dp = 2, .prefill_groups = 1});
  expect_one_ranks_bits({.dp = 2, .prefill_groups = 1}, /*prefix_cache=*/true);
}

/// Of any plan: one sequence in a group whose others have none, pieces of it, a prefix that another left.
void expect_nothing_shows(const ParallelPlan& plan) {
  SCOPED_TRACE(to_text(resolved(plan, preset_config("tiny-v41"))));
  const std::vector<TokenId> tokens = test::random_tokens(645, 4096, 5);
  const auto of_prompt = [&](std::size_t prompt) { return std::span(tokens).first(prompt + 6); };
  const auto cold = open(options(plan)), sharing = open(options(plan, 0, true));
  const std::vector<float> want = test::run_prompt(*cold, of_prompt(639), 639, 300);
  EXPECT_SAME_BITS(test::run_prompt(*cold, of_prompt(639), 639, 57), want);
  const SequenceId first = *sharing->open_prompt(std::span(tokens).first(431), 431);
  EXPECT_SAME_BITS(test::behind_prompt(*sharing, first, of_prompt(431), 431, 120),
                   test::run_prompt(*cold, of_prompt(431), 431, 300));
  sharing->close(first, true);
  const SequenceId found = *sharing->open_prompt(std::span(tokens).first(639), 639);
  EXPECT_EQ(sharing->length(found), 256);
  EXPECT_SAME_BITS(test::behind_prompt(*sharing, found, of_prompt(639), 639, 300), want);
  sharing->close(found, true);
}

TEST(BoundedReplayOfRanks, NeitherPiecesNorPrefixesShow) {
  expect_nothing_shows({.tp = 2});
  expect_nothing_shows({.tp = 2, .dp = 2});
  expect_nothing_shows({.cp = 2});
  expect_nothing_shows({.dp = 2, .pp = 2});
}

/// A window for each layer of the decoder half, and one for the tokens behind the prompt: the logits of a
/// model without the option.
TEST(BoundedReplayOfRanks, AsManyTokensAsWindowsReachBackLeaveNoChange) {
  const std::vector<TokenId> tokens = test::random_tokens(712, 4096, 9);
  for (const ParallelPlan& plan : {ParallelPlan{.tp = 2}, ParallelPlan{.cp = 2}}) {
    const auto wide = open(options(plan, 0, false, 5 * 128)), whole = open(options(plan, 0, false, 0));
    EXPECT_SAME_BITS(test::run_prompt(*wide, tokens, 707, 290), test::run_prompt(*whole, tokens, 707, 300));
  }
}

/// The search runs the step's two passes again, each stage its part of them.
TEST(BoundedReplayOfRanks, BadLayersOfEitherHalfAreNamed) {
  const std::vector<TokenId> tokens = test::random_tokens(203, 4096, 10);
  for (const int layer : {1, 5}) {
    const test::DamagedCheckpoint damaged(fmt::format("layers.{}.attn_norm.weight", layer), test::kNaN,
                                          preset_config("tiny-v41"), "models/stories");
    for (const ParallelPlan& plan :
         {ParallelPlan{}, ParallelPlan{.dp = 2}, ParallelPlan{.pp = 2}, ParallelPlan{.cp = 2}}) {
      const auto engine = open_engine(damaged.path(), options(plan));
      const SequenceId sequence = *engine->open_prompt({}, 203);
      test::feed_quietly(*engine, sequence, tokens, 150, 100);
      const StepInput input{sequence, std::span(tokens).subspan(150), WantedLogits::kLast};
      const Result<StepOutput> output = engine->step({&input, 1});
      ASSERT_FALSE(output);
      EXPECT_NE(output.error().find(fmt::format("first in layer {} ", layer)), std::string::npos)
          << to_text(engine->options().parallel) << ": " << output.error();
    }
  }
}

}  // namespace
}  // namespace baleen
