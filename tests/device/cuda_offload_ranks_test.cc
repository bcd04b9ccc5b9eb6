// Ranks on GPUs with routed experts in the host's memory and on disk: where they lie changes no bit of what the
// same plan computes with all of them on the GPUs.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "model/expert_block.h"
#include "model/presets.h"
#include "rank_engine/rank_engine.h"
#include "rank_engine/thread_team.h"
#include "tests/support/compare.h"
#include "tests/support/gpu_ranks.h"
#include "tests/support/random_checkpoint.h"
#include "tests/support/run_sequence.h"

namespace baleen {
namespace {

constexpr std::int64_t kMaxSequences = 6;
constexpr std::int64_t kPrompt = 300;  // rows that no graph has
constexpr std::int64_t kSteps = 40;    // in which experts change places more than once

class CudaOffloadRanks : public testing::Test {
 protected:
  void SetUp() override {
    BALEEN_NEEDS_GPUS(1);
    ModelConfig config = preset_config("tiny-real-heads");
    config.n_routed_experts = 48;
    checkpoint_.emplace(config);
    weights_ = std::make_shared<const ModelWeights>(checkpoint_->path());
  }

  EngineOptions options(const ParallelPlan& plan) const {
    EngineOptions some{.device = {DeviceKind::kCuda, 0},
                       .num_threads = 2,
                       .max_batch_tokens = kPrompt,
                       .max_logit_rows = kPrompt,
                       .max_sequences = kMaxSequences,
                       .cache_tokens = 512 * kMaxSequences,
                       .max_draft_tokens = 1,
                       .parallel = plan};
    for (const int gpu : test::gpus_of_ranks(resolved(plan, weights_->config()).num_devices))
      some.rank_devices.push_back({DeviceKind::kCuda, gpu});
    some.longest_wait = std::chrono::seconds(60);
    return resolved(some, weights_->config());
  }

  RankEngine open(const EngineOptions& some) const {
    return RankEngine(std::make_unique<ThreadTeam>(weights_, some), some);
  }

  /// Prompts one by one, then tokens of `num_sequences` side by side. All logits.
  static std::vector<float> work(StepEngine& engine, std::uint32_t num_sequences) {
    std::vector<float> seen;
    std::vector<SequenceId> ids;
    const auto run = [&](std::span<const StepInput> inputs) {
      const Result<StepOutput> output = engine.step(inputs);
      ASSERT_TRUE(output.ok()) << output.error();
      const auto& logits = output.value().logits;
      seen.insert(seen.end(), logits.data(), logits.data() + logits.size());
    };
    for (std::uint32_t i = 0; i < num_sequences; ++i) {
      ids.push_back(*engine.open({}));
      const std::vector<TokenId> prompt = test::random_tokens(i % 2 == 0 ? kPrompt : 70, 512, i);
      run(std::vector<StepInput>{{ids.back(), prompt, WantedLogits::kAll}});
    }
    for (std::int64_t step = 0; step < kSteps; ++step) {
      // Few different tokens, so that some experts are used much more than others.
      const std::vector<TokenId> tokens =
          test::random_tokens(num_sequences, 12, static_cast<std::uint32_t>(100 + step));
      std::vector<StepInput> inputs;
      for (std::size_t i = 0; i < ids.size(); ++i)
        inputs.push_back({ids[i], std::span(tokens).subspan(i, 1), WantedLogits::kLast});
      run(inputs);
    }
    for (const SequenceId id : ids) engine.close(id, false);
    return seen;
  }

  /// `share` of each rank's experts away, `on_disk` of these on disk.
  void expect_same_bits(const ParallelPlan& plan, double share, double on_disk = 0) {
    SCOPED_TRACE(fmt::format("{}, {} away", to_text(resolved(plan, weights_->config())), share));
    EngineOptions some = options(plan);
    std::vector<std::vector<float>> want;
    std::int64_t weight_bytes = 0;
    {
      RankEngine whole = open(some);
      EXPECT_FALSE(whole.expert_places());
      weight_bytes = whole.plan().weight_bytes;
      for (const std::uint32_t count : kCounts) want.push_back(work(whole, count));
    }
    const ModelConfig& config = weights_->config();
    const std::int64_t block_bytes =
        ExpertBlock(config, detect_formats(config, weights_->checkpoint())).bytes();
    const std::int64_t num_ranks = some.parallel.num_devices;
    const double bytes_of_a_rank = static_cast<double>(
        config.num_blocks() * (config.n_routed_experts + some.parallel.redundant_experts) / num_ranks * block_bytes);
    some.gpu_weight_bytes = weight_bytes - static_cast<std::int64_t>(share * bytes_of_a_rank);
    if (on_disk > 0) {
      some.host_expert_bytes =
          num_ranks * (static_cast<std::int64_t>((1 - on_disk) * share * bytes_of_a_rank) +
                       ExpertReader::host_bytes(block_bytes));
    }
    RankEngine parted = open(some);
    for (std::size_t i = 0; i < want.size(); ++i) EXPECT_SAME_BITS(work(parted, kCounts[i]), want[i]);
    const std::optional<ExpertPlaceStats> places = parted.expert_places();
    ASSERT_TRUE(places);
    EXPECT_GT(places->placed.num_on_host, 0);
    EXPECT_EQ(places->placed.num_on_disk > 0, on_disk > 0);
    EXPECT_GT(places->fetched.from_host, 0U);
    EXPECT_GT(places->fetched.in_slots, 0U);
    EXPECT_EQ(places->fetched.from_disk > 0, on_disk > 0);
  }

  static constexpr std::uint32_t kCounts[] = {1, kMaxSequences};
  std::optional<test::RandomCheckpoint> checkpoint_;
  std::shared_ptr<const ModelWeights> weights_;
};

TEST_F(CudaOffloadRanks, TensorParallel) { expect_same_bits({.tp = 2}, 0.5); }
TEST_F(CudaOffloadRanks, DataParallel) { expect_same_bits({.dp = 2}, 0.5); }
TEST_F(CudaOffloadRanks, ContextParallel) { expect_same_bits({.cp = 2}, 0.5); }
TEST_F(CudaOffloadRanks, Pipeline) { expect_same_bits({.pp = 2}, 0.2); }
TEST_F(CudaOffloadRanks, CopiesOfExperts) {
  expect_same_bits({.dp = 2, .redundant_experts = 8, .expert_placement = ExpertOrder::kRoundRobin}, 0.4);
}
TEST_F(CudaOffloadRanks, GroupsOfSplitHeads) { expect_same_bits({.tp = 2, .dp = 2}, 0.5); }
TEST_F(CudaOffloadRanks, OnDisk) {
  expect_same_bits({.tp = 2}, 0.5, 0.5);
  expect_same_bits({.dp = 2}, 0.5, 0.5);
}

}  // namespace
}  // namespace baleen
