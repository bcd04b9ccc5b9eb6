// Ranks on GPUs with routed experts in the host's memory and on disk: where they lie changes no bit of what
// the same plan computes with all of them on the GPUs.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "engine/expert_memory.h"
#include "model/presets.h"
#include "model/rank_weights.h"
#include "moe/residence/expert_reader.h"
#include "moe/residence/expert_store.h"
#include "rank_engine/rank_engine.h"
#include "rank_engine/thread_team.h"
#include "tests/support/compare.h"
#include "tests/support/gpus_of_ranks.h"
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
    load(preset_config("tiny-real-heads"));
  }

  /// With so many experts that buffers and slots for them take less than they do.
  void load(ModelConfig config, const char* tokenizer = "") {
    config.n_routed_experts = 48;
    max_draft_tokens_ = std::max<std::int64_t>(1, config.dspark.block_size);
    checkpoint_.emplace(config, 1, tokenizer);
    weights_ = std::make_shared<const ModelWeights>(checkpoint_->path());
  }

  EngineOptions options(const ParallelPlan& plan) const {
    EngineOptions some{.device = planned_gpu(),
                       .num_threads = 2,
                       .max_batch_tokens = kPrompt,
                       .max_logit_rows = kPrompt,
                       .max_sequences = kMaxSequences,
                       .cache_tokens = 512 * kMaxSequences,
                       .max_draft_tokens = max_draft_tokens_,
                       .parallel = plan};
    for (const int gpu : test::gpus_of_ranks(resolved(plan, weights_->config()).num_devices))
      some.rank_devices.push_back(planned_gpu(gpu));
    some.longest_wait = std::chrono::seconds(60);
    return resolved(some, weights_->config());
  }

  RankEngine open(const EngineOptions& some) const {
    return RankEngine(std::make_unique<ThreadTeam>(weights_, some), some);
  }

  /// Prompts one by one, then tokens of `num_sequences` side by side, with drafts now and then. All logits.
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
      if (step % 8 == 0) draft(engine, ids, seen);
    }
    for (const SequenceId id : ids) engine.close(id, false);
    return seen;
  }

  /// As many drafts as a step has, with a few tokens in turn for chosen ones.
  static void draft(StepEngine& engine, std::span<const SequenceId> ids, std::vector<float>& seen) {
    const EngineLimits limits = engine.limits();
    for (const SequenceId id : ids)
      ASSERT_TRUE(engine.reserve(id, std::max(limits.max_draft_tokens, limits.least_draft_room)));
    for (std::int64_t depth = 0; depth < limits.max_draft_tokens; ++depth) {
      std::vector<DraftInput> inputs;
      for (const SequenceId id : ids) inputs.push_back({id, static_cast<TokenId>(7 + depth)});
      const Result<DraftOutput> output = engine.draft(inputs, depth);
      ASSERT_TRUE(output.ok()) << output.error();
      const auto& logits = output.value().logits;
      seen.insert(seen.end(), logits.data(), logits.data() + logits.size());
    }
  }

  /// Room on every GPU for what a rank has beside `share` of its experts, of the rank that has most; on the
  /// host for all but `on_disk` of the others.
  void limit_memory(EngineOptions& some, double share, double on_disk) const {
    const ModelConfig& config = weights_->config();
    const ParallelPlan& plan = some.parallel;
    std::int64_t on_gpu = 0, on_host = 0;
    for (std::int64_t rank = 0; rank < plan.num_devices; ++rank) {
      const std::int64_t index = rank / plan.stage_ranks();
      const Stage stage = even_stage(config, plan.pp, index);
      const RankLayout layout(config, plan, stage, index, rank % plan.stage_ranks());
      const RankWeights own(config, weights_->tree(), layout);
      const MovableExperts experts =
          movable_experts(rank_config(config, plan, stage), own.tree(), plan, some);
      ExpertCounts counts = experts.counts;
      counts.num_on_host = static_cast<std::int64_t>(share * static_cast<double>(counts.num_in_all()));
      counts.num_slots = suitable_slots(counts);
      on_gpu =
          std::max(on_gpu, experts.bytes_beside + ExpertStore::device_bytes(counts, experts.block_bytes));
      const double kept = (1 - on_disk) * static_cast<double>(counts.num_on_host) + 1;
      on_host = std::max(on_host, ExpertReader::host_bytes(experts.block_bytes) +
                                      static_cast<std::int64_t>(kept) * experts.block_bytes);
    }
    some.gpu_weight_bytes = on_gpu;
    if (on_disk > 0) some.host_expert_bytes = plan.num_devices * on_host;
  }

  /// `share` of each rank's experts away, `on_disk` of these on disk.
  void expect_same_bits(const ParallelPlan& plan, double share, double on_disk = 0) {
    SCOPED_TRACE(fmt::format("{}, {} away", to_text(resolved(plan, weights_->config())), share));
    EngineOptions some = options(plan);
    std::vector<std::vector<float>> want;
    {
      RankEngine whole = open(some);
      EXPECT_FALSE(whole.expert_places());
      for (const std::uint32_t count : kCounts) want.push_back(work(whole, count));
    }
    limit_memory(some, share, on_disk);
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
  std::int64_t max_draft_tokens_ = 1;
  std::optional<test::RandomCheckpoint> checkpoint_;
  std::shared_ptr<const ModelWeights> weights_;
};

TEST_F(CudaOffloadRanks, TensorParallel) { expect_same_bits({.tp = 2}, 0.5); }
TEST_F(CudaOffloadRanks, DataParallel) { expect_same_bits({.dp = 2}, 0.5); }
TEST_F(CudaOffloadRanks, ContextParallel) { expect_same_bits({.cp = 2}, 0.5); }
TEST_F(CudaOffloadRanks, Pipeline) { expect_same_bits({.pp = 2}, 0.5); }
TEST_F(CudaOffloadRanks, CopiesOfExperts) {
  expect_same_bits({.dp = 2, .redundant_experts = 8, .expert_placement = ExpertOrder::kRoundRobin}, 0.5);
}
TEST_F(CudaOffloadRanks, GroupsOfSplitHeads) { expect_same_bits({.tp = 2, .dp = 2}, 0.8); }
TEST_F(CudaOffloadRanks, OnDisk) {
  expect_same_bits({.tp = 2}, 0.5, 0.5);
  expect_same_bits({.dp = 2}, 0.5, 0.5);
}

/// DeepSeek-V4.1 with its draft head, whose blocks have 4 experts beside layers of 48.
TEST_F(CudaOffloadRanks, BesideADraftHeadWithFewerExperts) {
  ModelConfig v41 = preset_config("tiny-v41");
  v41.moe_intermediate_size = 256;  // is split in two
  load(v41, "models/stories");
  expect_same_bits({.tp = 2}, 0.5);
  expect_same_bits({.tp = 2, .ep = 1, .moe_tp = 2}, 0.5);
  expect_same_bits({.tp = 2}, 0.5, 0.5);
  expect_same_bits({.dp = 2}, 0.5);
  expect_same_bits({.pp = 2}, 0.5);
}

}  // namespace
}  // namespace baleen
