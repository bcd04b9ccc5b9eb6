// A model with tables of n-grams, these in the file's map or in memory: the same bits; and what is refused.
#include <gtest/gtest.h>

#include "base/error.h"
#include "engine/engine.h"
#include "tests/support/compare.h"
#include "tests/support/random_checkpoint.h"
#include "tests/support/run_sequence.h"

namespace baleen {
namespace {

constexpr const char* kTokenizer = "models/stories";

EngineOptions options_with(EngramWish engram) {
  return {
      .num_threads = 2, .max_batch_tokens = 64, .max_logit_rows = 64, .cache_tokens = 512, .engram = engram};
}

TEST(EngramTablesOfAnEngine, GiveTheSameBitsFromMemoryAsFromTheMap) {
  const test::RandomCheckpoint checkpoint(preset_config("tiny-v41"), 3, kTokenizer);
  const std::vector<TokenId> tokens = test::random_tokens(150, 4096, 5);
  Engine mapped(checkpoint.path(), options_with(EngramWish::kAuto));
  EXPECT_EQ(mapped.plan().engram_place, EngramPlace::kMapped);
  const std::vector<float> want = test::run_sequence(mapped, tokens, 33).main;
  for (const EngramWish wish : {EngramWish::kDisk, EngramWish::kHost}) {
    Engine engine(checkpoint.path(), options_with(wish));
    EXPECT_EQ(engine.plan().engram_place,
              wish == EngramWish::kHost ? EngramPlace::kHost : EngramPlace::kMapped);
    EXPECT_SAME_BITS(test::run_sequence(engine, tokens, 33).main, want);
  }
}

/// No step runs ahead of the one that chooses its token: n-grams are hashed on the host.
TEST(EngramTablesOfAnEngine, WaitForTokensThatADeviceChooses) {
  const test::RandomCheckpoint checkpoint(preset_config("tiny-v41"), 3, kTokenizer);
  EngineOptions options = options_with(EngramWish::kAuto);
  options.choose_on_device = true;
  const Engine engine(checkpoint.path(), options);
  EXPECT_TRUE(engine.limits().chooses);
  EXPECT_FALSE(engine.limits().queues);
}

TEST(EngramTablesOfAnEngine, AreNotInAGpusMemoryOnACpu) {
  const test::RandomCheckpoint checkpoint(preset_config("tiny-v41"), 3, kTokenizer);
  try {
    const Engine engine(checkpoint.path(), options_with(EngramWish::kGpu));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()),
              "‹Engram tables› in a GPU's memory: the CPU computes; try host or disk");
  }
}

}  // namespace
}  // namespace baleen
