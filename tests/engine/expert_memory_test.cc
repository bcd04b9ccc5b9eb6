// Which routed experts a GPU has no room for: counted before anything is loaded.
#include "engine/expert_memory.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <optional>
#include <tuple>

#include "model/device_weights.h"
#include "model/presets.h"
#include "model/rank_weights.h"
#include "model/weights.h"
#include "moe/residence/expert_store.h"
#include "tests/support/random_checkpoint.h"

namespace baleen {
namespace {

MovableExperts movable(const ModelConfig& config, const EngineOptions& options) {
  return movable_experts(config, StorageFormats(), options);
}

TEST(ExpertsOnTheHost, FlashOnOneH200) {
  const ModelConfig config = preset_config("flash");
  const std::int64_t free_bytes = std::int64_t{139} << 30;
  EngineOptions options =
      resolved({.device = planned_gpu(), .max_batch_tokens = 512, .cache_tokens = 8192}, config);
  const MemoryPlan whole = plan_memory(config, StorageFormats(), options);
  EXPECT_GT(whole.total_bytes(), free_bytes);
  MemoryPlan plan = whole;
  EXPECT_EQ(leave_experts_to_host(plan, movable(config, options), options, free_bytes), std::nullopt);
  EXPECT_LE(plan.total_bytes(), free_bytes);
  EXPECT_EQ(plan.experts.num_blocks, 43);
  EXPECT_GT(plan.experts.num_on_host, 0);
  constexpr std::int64_t kBlockBytes = 13'369'344;
  EXPECT_GT(plan.total_bytes() + 3 * kBlockBytes, free_bytes);  // copy buffers grow in steps
  EXPECT_EQ(plan.host_expert_bytes, (plan.experts.num_on_host + 1) * kBlockBytes);
  EXPECT_NE(to_text(plan).find(fmt::format("{} of 11008 routed experts", plan.experts.num_on_host)),
            std::string::npos);
  EXPECT_NE(to_text(plan).find(fmt::format("buffers cache {} ", plan.experts.most_cached(1))),
            std::string::npos);

  // A smaller budget of the GPU: more on the host; and a limit of the host's memory: a sentence.
  MemoryPlan less = whole;
  options.gpu_weight_bytes = std::int64_t{80} << 30;
  EXPECT_EQ(leave_experts_to_host(less, movable(config, options), options, free_bytes), std::nullopt);
  EXPECT_LE(less.weight_bytes, *options.gpu_weight_bytes);
  EXPECT_GT(less.experts.num_on_host, plan.experts.num_on_host);
  EXPECT_EQ(less.experts.num_on_disk, 0);
  MemoryPlan refused = whole;
  options.host_expert_bytes = 100'000'000;
  const auto failed = leave_experts_to_host(refused, movable(config, options), options, free_bytes);
  ASSERT_TRUE(failed);
  EXPECT_NE(failed->message.find("‹host expert bytes› allows 100.0 MB"), std::string::npos)
      << failed->message;
  EXPECT_EQ(refused.weight_bytes, whole.weight_bytes);
  options.gpu_weight_bytes = 1'000'000'000;
  EXPECT_NE(leave_experts_to_host(refused, movable(config, options), options, free_bytes)
                ->message.find("all but the routed experts"),
            std::string::npos);
}

/// Blocks of V4.1's draft head have 128 experts, its layers 384, and an MTP block as many as a layer: where
/// they are run, they stay on the GPU, otherwise they are in no memory.
TEST(ExpertsOnTheHost, ADraftHeadsStayOnTheGpu) {
  for (const auto& [preset, num_blocks, num_experts] : {std::tuple("v41-flash", 3, 128), {"flash", 1, 256}}) {
    SCOPED_TRACE(preset);
    const ModelConfig config = preset_config(preset);
    const std::int64_t free_bytes = std::int64_t{139} << 30;
    std::int64_t beside[2] = {};
    for (const bool drafts : {false, true}) {
      const EngineOptions options = resolved(
          {.device = planned_gpu(), .max_batch_tokens = 512, .cache_tokens = 8192, .drafts = drafts}, config);
      const MovableExperts experts = movable(config, options);
      EXPECT_EQ(experts.counts.num_in_all(), config.num_hidden_layers * config.n_routed_experts);
      beside[drafts ? 1 : 0] = experts.bytes_beside;
      MemoryPlan plan = plan_memory(config, StorageFormats(), options);
      const auto failed = leave_experts_to_host(plan, experts, options, free_bytes);
      ASSERT_FALSE(failed) << failed->message;
      EXPECT_LE(plan.total_bytes(), free_bytes);
      EXPECT_EQ(plan.experts.num_blocks, config.num_hidden_layers);
      EXPECT_EQ(plan.weight_bytes, experts.bytes_beside - experts.embedding_bytes +
                                       ExpertStore::device_bytes(plan.experts, experts.block_bytes));
    }
    EngineOptions little = resolved({.device = planned_gpu(), .cache_tokens = 8192, .drafts = true}, config);
    little.gpu_weight_bytes = beside[0];
    MemoryPlan refused = plan_memory(config, StorageFormats(), little);
    const auto failed = leave_experts_to_host(refused, movable(config, little), little, free_bytes);
    ASSERT_TRUE(failed);
    EXPECT_NE(failed->message.find("‹draft depth› 0 leaves out those of the draft head"), std::string::npos)
        << failed->message;
    const std::int64_t block_bytes = movable(config, resolved({.device = planned_gpu()}, config)).block_bytes;
    EXPECT_EQ(beside[1] - beside[0], num_blocks * num_experts * block_bytes);
  }
}

TEST(ExpertsOnTheHost, FlashOnOne80GbCard) {
  const ModelConfig config = preset_config("flash");
  const std::int64_t free_bytes = std::int64_t{78} << 30;
  EngineOptions options =
      resolved({.device = planned_gpu(), .max_batch_tokens = 512, .cache_tokens = 8192}, config);
  const MemoryPlan whole = plan_memory(config, StorageFormats(), options);
  MemoryPlan plan = whole;
  EXPECT_EQ(leave_experts_to_host(plan, movable(config, options), options, free_bytes), std::nullopt);
  EXPECT_LE(plan.total_bytes(), free_bytes);
  EXPECT_GT(plan.experts.share_away(), 0.5);
  EXPECT_LT(plan.host_expert_bytes, std::int64_t{90} << 30) << "a host of 128 GiB holds them";
  EXPECT_EQ(plan.experts.num_slots, suitable_slots(plan.experts));
  // What the host must not hold is read from disk.
  options.host_expert_bytes = std::int64_t{32} << 30;
  MemoryPlan less = whole;
  EXPECT_EQ(leave_experts_to_host(less, movable(config, options), options, free_bytes), std::nullopt);
  EXPECT_LE(less.host_weight_bytes(), *options.host_expert_bytes);
  EXPECT_GT(less.host_weight_bytes(), *options.host_expert_bytes - (std::int64_t{16} << 20));
  EXPECT_LE(less.total_bytes(), free_bytes);
  EXPECT_EQ(less.experts.num_away(), plan.experts.num_away());
  EXPECT_NE(to_text(less).find(fmt::format("{} routed experts", less.experts.num_on_disk)),
            std::string::npos);
}

/// It alone, where that is enough; not where the host's memory is not to hold it.
TEST(ExpertsOnTheHost, TheEmbeddingGoesFirst) {
  const ModelConfig config = preset_config("flash");
  constexpr std::int64_t kEmbedding = std::int64_t{129280} * 4096 * 2;
  EngineOptions options = resolved({.device = planned_gpu(), .cache_tokens = 8192}, config);
  const MemoryPlan whole = plan_memory(config, StorageFormats(), options);
  const auto placed = [&](std::int64_t missing) {
    MemoryPlan plan = whole;
    const auto failed =
        leave_experts_to_host(plan, movable(config, options), options, whole.total_bytes() - missing);
    EXPECT_FALSE(failed) << failed->message;
    return plan;
  };
  EXPECT_EQ(placed(0).host_weight_bytes(), 0);
  for (const std::int64_t missing : {std::int64_t{1}, kEmbedding}) {
    const MemoryPlan plan = placed(missing);
    EXPECT_EQ(plan.host_embedding_bytes, kEmbedding);
    EXPECT_EQ(plan.host_weight_bytes(), kEmbedding);
    EXPECT_EQ(plan.total_bytes(), whole.total_bytes() - kEmbedding);
    EXPECT_EQ(plan.experts.num_blocks, 0) << "all experts lie in one memory";
    EXPECT_NE(to_text(plan).find("pinned: the embedding"), std::string::npos);
  }
  const std::int64_t more = std::int64_t{20} << 30;
  const MemoryPlan with = placed(more);
  EXPECT_EQ(with.host_embedding_bytes, kEmbedding);
  options.host_expert_bytes = kEmbedding - 1;
  const MemoryPlan without = placed(more);
  EXPECT_EQ(without.host_embedding_bytes, 0);
  EXPECT_LE(without.host_weight_bytes(), *options.host_expert_bytes);
  EXPECT_GT(without.experts.num_away(), with.experts.num_away());
  options.host_expert_bytes = 2 * kEmbedding;
  EXPECT_LE(placed(more).host_weight_bytes(), *options.host_expert_bytes);
  EXPECT_EQ(placed(more).experts.num_away(), with.experts.num_away());
}

TEST(ExpertsOnTheHost, NothingChangesWhereWeightsFit) {
  const ModelConfig config = preset_config("tiny-flash");
  const EngineOptions options = resolved({.device = planned_gpu()}, config);
  MemoryPlan plan = plan_memory(config, StorageFormats(), options);
  EXPECT_EQ(leave_experts_to_host(plan, movable(config, options), options, plan.total_bytes()), std::nullopt);
  EXPECT_EQ(plan.experts.num_on_host, 0);
}

/// The budget with which scripts/check_device_program.py runs it: some experts do not fit, the rest does.
TEST(ExpertsOnTheHost, TheBundledModelInTwentyMegabytes) {
  const ModelWeights weights("models/stories");
  EngineOptions options = resolved({.device = planned_gpu()}, weights.config());
  options.gpu_weight_bytes = 20'000'000;
  MemoryPlan plan = plan_memory(weights.config(), device_weight_bytes(weights.tree()), options);
  const MovableExperts experts =
      movable_experts(weights.config(), weights.tree(), resolved(ParallelPlan(), weights.config()), options);
  const auto failed = leave_experts_to_host(plan, experts, options, std::int64_t{1} << 40);
  ASSERT_FALSE(failed) << failed->message;
  EXPECT_GT(plan.experts.num_on_host, 0);
  EXPECT_LE(plan.weight_bytes, *options.gpu_weight_bytes);
  options.gpu_weight_bytes = 10'000'000;
  const auto refused = leave_experts_to_host(plan, experts, options, std::int64_t{1} << 40);
  ASSERT_TRUE(refused);
  EXPECT_NE(refused->message.find("where 10.0 MB are left"), std::string::npos) << refused->message;
}

/// The budgets of its part `places`: experts lie on the host, on disk or at both levels.
TEST(ExpertsOnTheHost, Bench1bInTheBudgetsOfPlaces) {
  const ModelConfig config = preset_config("bench-1b");
  const std::optional<std::int64_t> host_budgets[] = {std::nullopt, 335'000'000, 245'000'000};
  for (const std::int64_t gpu_bytes : {1'015'000'000, 965'000'000, 905'000'000}) {
    for (const std::optional<std::int64_t>& host_bytes : host_budgets) {
      SCOPED_TRACE(fmt::format("{} {}", gpu_bytes, host_bytes.value_or(0)));
      EngineOptions options = resolved({.device = planned_gpu()}, config);
      options.gpu_weight_bytes = gpu_bytes;
      options.host_expert_bytes = host_bytes;
      MemoryPlan plan = plan_memory(config, StorageFormats(), options);
      const auto failed =
          leave_experts_to_host(plan, movable(config, options), options, std::int64_t{1} << 40);
      ASSERT_FALSE(failed) << failed->message;
      EXPECT_GT(plan.experts.num_away(), 0);
      EXPECT_GT(plan.host_embedding_bytes, 0);
      EXPECT_EQ(plan.experts.num_on_device() > 0, gpu_bytes > 905'000'000);
      EXPECT_EQ(plan.experts.num_on_host > 0, !host_bytes || *host_bytes == 335'000'000);
      EXPECT_EQ(plan.experts.num_on_disk > 0, host_bytes.has_value());
    }
  }
}

TEST(ExpertsOnTheHost, TheProcessorHasOneMemory) {
  const ModelConfig config = preset_config("tiny-flash");
  const EngineOptions options = resolved({.num_threads = 1, .gpu_weight_bytes = 1000}, config);
  MemoryPlan plan = plan_memory(config, StorageFormats(), options);
  const auto failed = leave_experts_to_host(plan, movable(config, options), options, 1000);
  ASSERT_TRUE(failed);
  EXPECT_NE(failed->message.find("‹GPU weight bytes›"), std::string::npos);
}

/// One rank of `plan`, and its share of a model's weights.
class RankExperts : public testing::Test {
 protected:
  void share(ParallelPlan plan) {
    options_ = {.device = planned_gpu(), .num_threads = 1, .cache_tokens = 4096};
    plan.shared_tp = 1;
    plan_ = options_.parallel = resolved(plan, config());
    for (std::int64_t i = 0; i < plan_.num_devices; ++i) options_.rank_devices.push_back(planned_gpu());
    options_ = resolved(options_, config());
    layout_ = RankLayout(config(), plan_, even_stage(config(), plan_.pp, 0), 0, plan_.stage_ranks() - 1);
    weights_.emplace(config(), whole_.tree(), layout_);
    experts_ =
        movable_experts(rank_config(config(), plan_, layout_.stage()), weights_->tree(), plan_, options_);
  }
  [[nodiscard]] const ModelConfig& config() const { return whole_.config(); }
  [[nodiscard]] MemoryPlan memory() const {
    return plan_rank_memory(config(), device_weight_bytes(weights_->tree()), layout_, options_);
  }

  /// With so many experts that buffers and slots for them take less than they do.
  static ModelConfig with_many_experts() {
    ModelConfig config = preset_config("tiny-flash");
    config.n_routed_experts = 48;
    return config;
  }

  test::RandomCheckpoint checkpoint_{with_many_experts()};
  ModelWeights whole_{checkpoint_.path()};
  EngineOptions options_;
  ParallelPlan plan_;
  RankLayout layout_;
  std::optional<RankWeights> weights_;
  MovableExperts experts_;
};

TEST_F(RankExperts, AreThoseOfItsSlots) {
  share({.dp = 2, .redundant_experts = 2});
  const std::int64_t num_experts = config().n_routed_experts;
  EXPECT_EQ(experts_.counts.num_blocks, config().num_hidden_layers);
  EXPECT_EQ(experts_.counts.num_experts, (num_experts + 2) / 2);
  EXPECT_EQ(experts_.counts.num_to_choose_from(), num_experts);
  EXPECT_EQ(experts_.counts.num_groups, 2);
  EXPECT_EQ(experts_.num_sharing, 2);
  EXPECT_LT(experts_.bytes_beside, device_weight_bytes(weights_->tree()));
}

TEST_F(RankExperts, LeaveAndShareTheHostsMemory) {
  share({.tp = 2});
  const MemoryPlan whole = memory();
  EXPECT_GT(whole.message_bytes, 0);
  const std::int64_t block_bytes = experts_.block_bytes;
  const std::int64_t free_bytes = whole.total_bytes() - experts_.counts.num_in_all() / 2 * block_bytes;
  MemoryPlan plan = whole;
  EXPECT_EQ(leave_experts_to_host(plan, experts_, options_, whole.total_bytes()), std::nullopt);
  EXPECT_EQ(plan.experts.num_away(), 0);
  EXPECT_EQ(leave_experts_to_host(plan, experts_, options_, free_bytes), std::nullopt);
  EXPECT_LE(plan.total_bytes(), free_bytes);
  EXPECT_GT(plan.experts.num_on_host, 0);
  EXPECT_EQ(plan.experts.num_on_disk, 0);
  // Half of what all ranks may take, a block short of what this one wants.
  MemoryPlan less = whole;
  options_.host_expert_bytes = 2 * (plan.host_expert_bytes - block_bytes);
  const auto failed = leave_experts_to_host(less, experts_, options_, free_bytes);
  if (failed) {  // to read one from disk takes more than that
    EXPECT_NE(failed->message.find("for each of 2 ranks"), std::string::npos) << failed->message;
  } else {
    EXPECT_GT(less.experts.num_on_disk, 0);
    EXPECT_LE(less.host_expert_bytes, *options_.host_expert_bytes / 2);
  }
}

TEST_F(RankExperts, DoNotLeaveWhereTheyAreToChangeRanksOrStepsAreCut) {
  share({.dp = 2});
  MemoryPlan plan = memory();
  // A byte more than the embedding, which may leave.
  const std::int64_t free_bytes = plan.total_bytes() - experts_.embedding_bytes - 1;
  const auto refusal = [&] {
    const auto failed = leave_experts_to_host(plan, experts_, options_, free_bytes);
    return failed ? failed->message : "";
  };
  options_.balance.enabled = true;
  EXPECT_NE(refusal().find("‹balancing›"), std::string::npos) << refusal();
  options_.balance.enabled = false;
  options_.parallel.dual_batch_overlap = true;
  EXPECT_NE(refusal().find("‹micro-batch overlap›"), std::string::npos) << refusal();
}

TEST(ExpertCounts, AStepOfRanksHasATokenOfEachGroup) {
  ExpertCounts half{
      .num_blocks = 43, .num_experts = 128, .num_on_host = 43 * 32, .num_selected = 6, .num_routed = 256};
  EXPECT_EQ(suitable_slots(half), 2);  // 3 of a token's 6 are here, a quarter of them away; and a guess
  half.num_groups = 4;
  EXPECT_EQ(suitable_slots(half), 4);
  EXPECT_DOUBLE_EQ(expected_fetches(half, 1), 32.0 * 6 / 256);
}

/// What `compute` cannot be is a sentence; `auto` is then `fetch`.
TEST(HostExperts, AreRefusedWhereNothingCanComputeThem) {
  const ModelConfig config = preset_config("tiny-flash");
  const auto refusal = [&](EngineOptions options) -> std::string {
    try {
      static_cast<void>(resolved(std::move(options), config));
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  };
  EngineOptions options{.host_experts = HostExpertsMode::kCompute};
  EXPECT_NE(refusal(options).find("‹host experts› compute is for a GPU"), std::string::npos)
      << refusal(options);
  options.device = planned_gpu();
  EXPECT_EQ(refusal(options), "");
  options.parallel.num_devices = options.parallel.tp = 2;
  options.rank_devices = {planned_gpu(), planned_gpu()};
  EXPECT_NE(refusal(options).find("the host computes experts of one GPU so far"), std::string::npos)
      << refusal(options);
  options.host_experts = HostExpertsMode::kAuto;
  EXPECT_EQ(refusal(options), "");
}

}  // namespace
}  // namespace baleen
