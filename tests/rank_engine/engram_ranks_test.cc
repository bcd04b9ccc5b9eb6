// Ranks of a model with tables of n-grams: from one copy in memory the bits that the file's map gives.
#include <gtest/gtest.h>

#include "rank_engine/rank_engine.h"
#include "tests/support/compare.h"
#include "tests/support/random_checkpoint.h"
#include "tests/support/run_sequence.h"

namespace baleen {
namespace {

TEST(EngramTablesOfRanks, GiveTheSameBitsFromMemoryAsFromTheMap) {
  const test::RandomCheckpoint checkpoint(without_drafts(preset_config("tiny-v41")), 3, "models/stories");
  const std::vector<TokenId> tokens = test::random_tokens(90, 4096, 5);
  const auto logits = [&](const ParallelPlan& plan, EngramWish engram) {
    const EngineOptions options{.num_threads = 2,
                                .max_batch_tokens = 64,
                                .max_logit_rows = 64,
                                .cache_tokens = 512,
                                .engram = engram,
                                .parallel = plan};
    const auto engine = open_engine(checkpoint.path(), options);
    return test::run_sequence(*engine, tokens, 33).main;
  };
  for (const ParallelPlan& plan :
       {ParallelPlan{.num_devices = 2, .tp = 2}, ParallelPlan{.num_devices = 2, .ep = 2}}) {
    EXPECT_SAME_BITS(logits(plan, EngramWish::kHost), logits(plan, EngramWish::kAuto)) << to_text(plan);
  }
}

}  // namespace
}  // namespace baleen
