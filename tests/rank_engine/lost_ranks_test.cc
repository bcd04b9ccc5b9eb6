// Ranks that fail, stall or compute what is not a number: one sentence, in bounded time.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <numeric>
#include <thread>

#include "rank_engine/rank_engine.h"
#include "rank_engine/thread_team.h"
#include "tests/support/damaged_checkpoint.h"
#include "tests/support/random_checkpoint.h"
#include "tests/support/run_sequence.h"

namespace baleen {
namespace {

const test::RandomCheckpoint& tiny() {
  static const test::RandomCheckpoint checkpoint("tiny-flash");
  return checkpoint;
}

/// Passes messages on until `fault` is called instead.
class FaultyCommunicator final : public Communicator {
 public:
  FaultyCommunicator(LocalExchange& exchange, std::int64_t good_calls, std::function<void()> fault)
      : inner_(exchange), good_calls_(good_calls), fault_(std::move(fault)) {}
  void exchange(const RankGroup& group, std::span<const std::span<const std::byte>> send,
                std::span<const std::span<std::byte>> receive) override {
    if (good_calls_-- == 0) fault_();
    inner_.exchange(group, send, receive);
  }

 private:
  LocalCommunicator inner_;
  std::int64_t good_calls_;
  std::function<void()> fault_;
};

/// As a rank that is stuck, but not for ever.
void wait_for(const std::atomic<bool>& released) {
  for (int i = 0; i < 12000 && !released; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

std::unique_ptr<ModelEngine> engine_with_fault(const ParallelPlan& plan, std::int64_t faulty_rank,
                                               const std::function<void()>& fault,
                                               std::chrono::milliseconds longest_wait,
                                               std::int64_t good_calls = 3) {
  auto weights = std::make_shared<const ModelWeights>(tiny().path());
  EngineOptions options{.num_threads = 1, .max_batch_tokens = 32, .cache_tokens = 512, .parallel = plan};
  options.longest_wait = longest_wait;
  options = resolved(options, weights->config());
  auto connect = [&](std::int64_t rank, LocalExchange& exchange) -> std::unique_ptr<Communicator> {
    if (rank != faulty_rank) return std::make_unique<LocalCommunicator>(exchange);
    return std::make_unique<FaultyCommunicator>(exchange, good_calls, fault);
  };
  return std::make_unique<RankEngine>(std::make_unique<ThreadTeam>(std::move(weights), options, connect),
                                      options);
}

std::string sentence_of_step(StepEngine& engine, SequenceId sequence) {
  try {
    const std::vector<TokenId> tokens{1, 2, 3};
    const StepInput input{sequence, tokens};
    static_cast<void>(engine.step({&input, 1}));
  } catch (const LostRanks& lost) {
    return lost.what();
  }
  return "";
}

TEST(LostRanks, ARankThatFailsEndsTheOthersAndIsNamed) {
  for (const ParallelPlan& plan :
       {ParallelPlan{.dp = 4}, ParallelPlan{.tp = 2}, ParallelPlan{.dp = 2, .pp = 2}}) {
    const auto engine = engine_with_fault(
        plan, 1, [] { fail("its disk is gone"); }, std::chrono::minutes(2));
    const SequenceId sequence = *engine->open({});
    EXPECT_EQ(sentence_of_step(*engine, sequence), "rank 1 failed: its disk is gone");
    EXPECT_EQ(sentence_of_step(*engine, sequence), "rank 1 failed: its disk is gone") << "and stays lost";
  }
}

TEST(LostRanks, ARankThatStallsIsNamed) {
  auto released = std::make_shared<std::atomic<bool>>(false);
  {
    const auto engine = engine_with_fault(
        {.dp = 2}, 1, [released] { wait_for(*released); }, std::chrono::milliseconds(1500));
    const SequenceId sequence = *engine->open({});
    const std::string sentence = sentence_of_step(*engine, sequence);
    EXPECT_NE(sentence.find("rank 0 waited 1500 ms for rank 1"), std::string::npos) << sentence;
  }
  *released = true;
}

TEST(LostRanks, ALastStageThatStallsIsNamedThoughNoRankWaitsForIt) {
  auto released = std::make_shared<std::atomic<bool>>(false);
  {
    const auto engine = engine_with_fault(
        {.pp = 2}, 1, [released] { wait_for(*released); }, std::chrono::milliseconds(1500), 0);
    const SequenceId sequence = *engine->open({});
    const std::string sentence = sentence_of_step(*engine, sequence);
    EXPECT_NE(sentence.find("rank 1"), std::string::npos) << sentence;
  }
  *released = true;
}

TEST(NonFinite, AllRanksFindTheFirstLayer) {
  const test::DamagedCheckpoint damaged("layers.2.attn_norm.weight", test::kNaN);
  for (const ParallelPlan& plan : {ParallelPlan{.dp = 2}, ParallelPlan{.tp = 2}, ParallelPlan{.pp = 2},
                                   ParallelPlan{.tp = 2, .o_proj_tp = 1, .sequence_parallel = true}}) {
    const auto engine = open_engine(
        damaged.path(), {.num_threads = 1, .max_batch_tokens = 64, .cache_tokens = 512, .parallel = plan});
    const SequenceId sequence = *engine->open({});
    const std::vector<TokenId> tokens = test::random_tokens(40, 512, 1);
    const StepInput input{sequence, tokens};
    const Result<StepOutput> output = engine->step({&input, 1});
    ASSERT_FALSE(output.ok());
    EXPECT_NE(output.error().find("first in layer 2 (HCA)"), std::string::npos) << output.error();
    EXPECT_EQ(engine->length(sequence), 0);
    engine->close(sequence, false);
  }
}

/// The search for the layer repeats the pass, and each layer has sent each token to k experts all the same.
TEST(NonFinite, TokensAreCountedOnce) {
  const test::DamagedCheckpoint damaged("norm.weight", test::kNaN);
  for (const ParallelPlan& plan :
       {ParallelPlan{}, ParallelPlan{.dp = 2}, ParallelPlan{.tp = 2}, ParallelPlan{.pp = 2},
        ParallelPlan{.tp = 2, .o_proj_tp = 1, .sequence_parallel = true}}) {
    const auto engine = open_engine(
        damaged.path(), {.num_threads = 1, .max_batch_tokens = 64, .cache_tokens = 512, .parallel = plan});
    SCOPED_TRACE(to_text(engine->options().parallel));
    const SequenceId sequence = *engine->open({});
    const std::vector<TokenId> tokens = test::random_tokens(40, 512, 1);
    const StepInput input{sequence, tokens};
    const Result<StepOutput> output = engine->step({&input, 1});
    ASSERT_FALSE(output.ok());
    EXPECT_NE(output.error().find("the head's is not"), std::string::npos) << output.error();
    const std::vector<std::vector<std::int64_t>> load = engine->expert_load();
    const ModelConfig& config = engine->config();
    for (std::int64_t block = 0; block < config.num_hidden_layers; ++block) {
      const std::vector<std::int64_t>& counts = load[static_cast<std::size_t>(block)];
      EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), std::int64_t{0}),
                config.num_experts_per_tok * std::ssize(tokens))
          << "block " << block;
    }
    engine->close(sequence, false);
  }
}

}  // namespace
}  // namespace baleen
