// A model with tables of n-grams, these in the file's map or in memory: the same bits; and what is refused.
#include <gtest/gtest.h>

#include <functional>
#include <span>
#include <vector>

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

/// Tokens whose rows were requested before each step of a prompt in chunks, of a reply, and of steps that
/// check drafts; and the logits of all of them. `foresee`: what is said of a sequence before a step of these
/// tokens.
class ForeseenSteps : public testing::Test {
 protected:
  using Foresee = std::function<void(StepEngine&, SequenceId, std::span<const TokenId>)>;

  struct Run {
    std::vector<float> logits;
    std::vector<std::int64_t> num_ahead;
  };

  [[nodiscard]] Run run(const Foresee& foresee, bool opens_with_prompt) const {
    EngineOptions options = options_with(EngramWish::kAuto);
    options.max_draft_tokens = 3;
    Engine engine(checkpoint_.path(), options);
    Run result;
    const std::span<const TokenId> tokens(tokens_);
    const std::span<const TokenId> prompt = tokens.first(100);
    const SequenceId id = *engine.open(opens_with_prompt ? prompt : std::span<const TokenId>());
    const auto step = [&](std::span<const TokenId> fed) {
      const StepOutput output = test::step(engine, id, fed);
      result.logits.insert(result.logits.end(), output.logits.data(),
                           output.logits.data() + output.logits.size());
      result.num_ahead.push_back(engine.engram()->num_tokens_ahead());
    };
    for (const auto& [begin, end] : {std::pair<std::size_t, std::size_t>{0, 40}, {40, 80}, {80, 100}})
      step(prompt.subspan(begin, end - begin));
    for (std::size_t at = 100; at < 103; ++at) {
      foresee(engine, id, tokens.subspan(at, 1));
      step(tokens.subspan(at, 1));
    }
    // Of four tokens the last is a draft that nothing is drafted behind.
    EXPECT_TRUE(engine.reserve(id, engine.limits().least_draft_room));
    for (std::int64_t depth = 0; depth < 3; ++depth) {
      const DraftInput input{id, tokens[103 + static_cast<std::size_t>(depth)]};
      EXPECT_TRUE(engine.draft({&input, 1}, depth).ok());
    }
    step(tokens.subspan(103, 4));
    engine.truncate(id, 105);
    step(tokens.subspan(107, 1));
    return result;
  }

  static void say_nothing(StepEngine& /*engine*/, SequenceId /*id*/, std::span<const TokenId> /*tokens*/) {}

  const test::RandomCheckpoint checkpoint_{preset_config("tiny-v41"), 3, kTokenizer};
  const std::vector<TokenId> tokens_ = test::random_tokens(108, 4096, 7);
};

TEST_F(ForeseenSteps, FindTheirRows) {
  const Run foreseen = run(
      [](StepEngine& engine, SequenceId id, std::span<const TokenId> tokens) { engine.foresee(id, tokens); },
      true);
  EXPECT_EQ(foreseen.num_ahead, (std::vector<std::int64_t>{0, 40, 20, 1, 1, 1, 3, 0}));
  const Run alone = run(say_nothing, false);
  EXPECT_EQ(alone.num_ahead, (std::vector<std::int64_t>{0, 0, 0, 0, 0, 0, 3, 0}));
  EXPECT_SAME_BITS(foreseen.logits, alone.logits);
}

TEST_F(ForeseenSteps, KeepTheirBitsWhereOtherTokensCome) {
  const Run alone = run(say_nothing, false);
  const Run wrong = run(
      [](StepEngine& engine, SequenceId id, std::span<const TokenId> tokens) {
        const std::vector<TokenId> other{(tokens.front() + 1) % 4096, 5, 6};
        engine.foresee(id, other);
      },
      true);
  EXPECT_EQ(wrong.num_ahead, (std::vector<std::int64_t>{0, 40, 20, 0, 0, 0, 3, 0}));
  EXPECT_SAME_BITS(wrong.logits, alone.logits);
  const Run said_twice = run(
      [](StepEngine& engine, SequenceId id, std::span<const TokenId> tokens) {
        engine.foresee(id, std::vector<TokenId>{9, 9});
        engine.foresee(id, tokens);
      },
      true);
  EXPECT_EQ(said_twice.num_ahead, (std::vector<std::int64_t>{0, 40, 20, 1, 1, 1, 3, 0}));
  EXPECT_SAME_BITS(said_twice.logits, alone.logits);
}

}  // namespace
}  // namespace baleen
