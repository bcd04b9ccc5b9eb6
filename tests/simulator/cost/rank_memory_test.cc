// Memory of ranks: one device is the engine's plan, and all ranks together hold every weight.

#include "simulator/cost/rank_memory.h"

#include <gtest/gtest.h>

#include "engine/memory_plan.h"
#include "model/device_weights.h"
#include "model/presets.h"

namespace baleen {
namespace {

constexpr std::int64_t kSequences = 4, kPositions = 4096;

RankLoad load() {
  return {.num_sequences = kSequences,
          .cached_positions = kPositions,
          .step_rows = 512,
          .logit_rows = kSequences};
}

TEST(RankMemory, OfASingleDeviceIsTheEnginesPlan) {
  for (const char* preset : {"flash", "pro", "tiny-flash"}) {
    const ModelConfig config = preset_config(preset);
    const RankModel model(config, {}, resolved({.num_devices = 1}, config));
    EngineOptions options;
    options.device.kind = DeviceKind::kCuda;
    options.max_batch_tokens = 512;
    options.max_logit_rows = kSequences;
    options.max_sequences = kSequences;
    options.cache_tokens = kSequences * kPositions;
    const MemoryPlan plan =
        plan_memory(config, device_weight_bytes(model.weights()), resolved(options, config));
    DeviceProfile device = *find_device_profile("h200");
    device.reserved_bytes = 0;
    const RankMemory memory = rank_memory(model, load(), device);
    EXPECT_EQ(memory.weights, plan.weight_bytes) << preset;
    EXPECT_EQ(memory.pages, plan.page_bytes) << preset;
    EXPECT_EQ(memory.window_pages, plan.window_bytes) << preset;
    EXPECT_EQ(memory.compressor_state, plan.state_bytes) << preset;
    EXPECT_EQ(memory.activations, plan.activation_bytes) << preset;
    EXPECT_EQ(memory.scratch, plan.scratch_bytes) << preset;
    EXPECT_EQ(memory.logits, plan.logit_bytes) << preset;
    EXPECT_EQ(memory.communication, 0) << preset;
    EXPECT_EQ(memory.total(), plan.total_bytes() - plan.overhead_bytes) << preset;
  }
}

/// Of routed experts.
std::int64_t expert_bytes(const RankModel& model) {
  std::int64_t bytes = 0;
  for (const BlockWeights& block : model.weights().blocks) {
    for (const ExpertWeights& expert : block.moe.routed) {
      for (const WeightMatrix* matrix : {&expert.w1, &expert.w2, &expert.w3})
        bytes += matrix->rows * matrix->row_bytes();
    }
  }
  return bytes;
}

TEST(RankMemory, AllRanksTogetherHoldEveryExpertOnce) {
  const ModelConfig config = preset_config("flash");
  const std::int64_t whole = expert_bytes(RankModel(config, {}, resolved({.num_devices = 1}, config)));
  for (const ParallelPlan& given :
       {ParallelPlan{.num_devices = 8, .tp = 8}, ParallelPlan{.num_devices = 8, .tp = 2, .ep = 4},
        ParallelPlan{.num_devices = 16, .tp = 2, .ep = 1, .pp = 2},
        ParallelPlan{.num_devices = 12, .dp = 4, .pp = 3}}) {
    const ParallelPlan plan = resolved(given, config);
    ASSERT_TRUE(violations(plan, config).empty()) << to_text(plan);
    std::int64_t sum = 0;
    for (std::int64_t s = 0; s < plan.pp; ++s) {
      const Stage stage{.begin = s * config.num_hidden_layers / plan.pp,
                        .end = (s + 1) * config.num_hidden_layers / plan.pp,
                        .first = s == 0,
                        .last = s + 1 == plan.pp};
      sum += plan.stage_ranks() * expert_bytes(RankModel(config, {}, plan, stage));
    }
    EXPECT_EQ(sum, whole) << to_text(plan);
  }
}

TEST(RankMemory, CopiesOfExpertsTakeTheirBytes) {
  const ModelConfig config = preset_config("flash");
  const RankModel plain(config, {}, resolved({.num_devices = 8}, config));
  const RankModel copies(config, {}, resolved({.num_devices = 8, .redundant_experts = 16}, config));
  // 16 copies over 8 ranks, in every block; 13,369,344 bytes each.
  EXPECT_EQ(device_weight_bytes(copies.weights()) - device_weight_bytes(plain.weights()),
            config.num_blocks() * 2 * 13'369'344);
}

TEST(RankMemory, SplitsTakeLessAndMoreSequencesTakeMore) {
  const ModelConfig config = preset_config("flash");
  const DeviceProfile& device = *find_device_profile("h200");
  std::int64_t before = std::numeric_limits<std::int64_t>::max();
  for (const std::int64_t tp : {1, 2, 4, 8}) {
    const RankModel model(config, {}, resolved({.num_devices = tp, .tp = tp}, config));
    const RankMemory memory = rank_memory(model, load(), device);
    EXPECT_LT(memory.weights, before);
    before = memory.weights;
    std::int64_t sum = 0;
    for (const auto& [name, bytes] : memory.parts()) sum += bytes;
    EXPECT_EQ(memory.total(), sum);
    RankLoad more = load();
    more.num_sequences *= 2;
    EXPECT_GT(rank_memory(model, more, device).cache(), memory.cache());
  }
}

}  // namespace
}  // namespace baleen
