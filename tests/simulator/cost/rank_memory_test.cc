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
    options.device = planned_gpu();
    options.max_batch_tokens = 512;
    options.max_logit_rows = kSequences;
    options.max_sequences = kSequences;
    options.cache_tokens = kSequences * kPositions;
    const MemoryPlan plan =
        plan_memory(config, device_weight_bytes(model.weights()), resolved(options, config));
    DeviceProfile device = *find_device_profile("h200");
    device.reserved_bytes = 0;
    device.memory_levels.clear();
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

/// Where the weights do not fit on one device, what the engine leaves to the host.
TEST(RankMemory, ExpertsOnTheHostAreTheEnginesPlan) {
  const ModelConfig config = preset_config("flash");
  DeviceProfile device = *find_device_profile("h200");
  const RankModel model(config, {}, resolved({.num_devices = 1}, config));
  for (const std::int64_t most : {std::int64_t{0}, std::int64_t{136'600'000'000}}) {
    device.most_weight_bytes = most;
    const RankMemory memory = rank_memory(model, load(), device);
    EXPECT_LE(memory.total(), device.memory_bytes);
    EXPECT_GT(memory.experts.num_on_host, 0);
    EXPECT_EQ(memory.experts.num_in_all(), config.num_hidden_layers * config.n_routed_experts);
    EXPECT_GE(memory.weights + memory.host_expert_bytes, model.weight_bytes() - memory.weights / 10);
    EXPECT_LE(memory.weights, most > 0 ? most : device.memory_bytes);
  }
  device.memory_levels.front().bytes = 1'000'000;  // not enough for them
  const RankMemory refused = rank_memory(model, load(), device);
  EXPECT_EQ(refused.experts.num_on_host, 0);
  EXPECT_GT(refused.total(), device.memory_bytes);
  const RankModel half(config, {}, resolved({.num_devices = 2, .tp = 2}, config));
  EXPECT_EQ(rank_memory(half, load(), *find_device_profile("h200")).experts.num_on_host, 0);
}

TEST(RankMemory, RanksLeaveExpertsToTheHostToo) {
  const ModelConfig config = preset_config("flash");
  DeviceProfile device = *find_device_profile("h200");
  device.memory_bytes = std::int64_t{70} << 30;
  for (const ParallelPlan& plan :
       {ParallelPlan{.num_devices = 2, .tp = 2}, ParallelPlan{.num_devices = 2, .dp = 2}}) {
    const RankModel half(config, {}, resolved(plan, config));
    const RankMemory memory = rank_memory(half, load(), device);
    EXPECT_LE(memory.total(), device.memory_bytes);
    EXPECT_GT(memory.experts.num_on_host, 0);
    EXPECT_EQ(memory.experts.num_experts, config.n_routed_experts / 2);
    EXPECT_EQ(memory.experts.num_routed, config.n_routed_experts);
    // The MTP block, which is not run, leaves its experts out.
    EXPECT_GE(memory.weights + memory.host_expert_bytes, half.weight_bytes() - memory.weights / 10);
  }
}

/// V4.1's tables lie in the nearest memory with room, beside what else is there; without one they count as
/// the device's, which then has too little.
TEST(RankMemory, TablesOfNGramsLieWhereThereIsRoom) {
  const ModelConfig config = preset_config("v41-flash");
  const StorageFormats formats{.dense = config.dense_format, .experts = config.expert_format};
  const RankModel whole(config, formats, resolved({.num_devices = 1}, config));
  const RankModel quarter(config, formats, resolved({.num_devices = 4, .tp = 4}, config));
  constexpr std::int64_t kTables = 202'758'032'400;
  DeviceProfile device = *find_device_profile("h200");
  const auto of = [&](const RankModel& model, EngramWish wish = EngramWish::kAuto) {
    RankLoad asked = load();
    asked.engram = wish;
    return rank_memory(model, asked, device);
  };
  for (const RankModel* model : {&whole, &quarter}) {
    const RankMemory memory = of(*model);
    EXPECT_EQ(memory.engram_place, EngramPlace::kHost);
    EXPECT_EQ(memory.engram_table_bytes, kTables);
    EXPECT_LE(memory.total(), device.memory_bytes);
    EXPECT_LT(memory.engram, 100'000'000);
  }
  EXPECT_EQ(of(quarter).experts.num_away(), 0);
  EXPECT_GT(of(whole).experts.num_on_host, 0);
  // Experts of one device and tables are more than this host has; four devices leave no experts.
  device.memory_levels.front().bytes = 240'000'000'000;
  EXPECT_EQ(of(quarter).engram_place, EngramPlace::kHost);
  EXPECT_GT(of(whole).total(), device.memory_bytes);
  device.memory_levels.push_back({.name = "disk", .bytes_per_second = 5e9, .kernel_bytes_per_second = 5e9});
  EXPECT_EQ(of(whole).engram_place, EngramPlace::kDisk);
  EXPECT_LE(of(whole).total(), device.memory_bytes);
  EXPECT_EQ(of(quarter, EngramWish::kDisk).engram_place, EngramPlace::kDisk);
  device.memory_levels.clear();
  EXPECT_GT(of(quarter).engram, kTables);
  EXPECT_GT(of(quarter).total(), device.memory_bytes);
  device.memory_bytes *= 3;  // a device that holds all of it
  EXPECT_EQ(of(quarter).engram_place, EngramPlace::kDevice);
  EXPECT_LE(of(quarter).total(), device.memory_bytes);
}

TEST(RankMemory, ADsparkHeadWithFewerDraftsThanItsBlock) {
  for (const char* preset : {"flash-0731", "v41-flash"}) {
    const ModelConfig config = preset_config(preset);
    const RankModel model(config, {.dense = config.dense_format, .experts = config.expert_format},
                          resolved({.num_devices = 8, .tp = 8}, config));
    const RankLoad one{
        .num_sequences = 1, .cached_positions = 4096, .step_rows = 2, .logit_rows = 2, .num_drafts = 1};
    EXPECT_GT(rank_memory(model, one, *find_device_profile("h200")).total(), 0) << preset;
  }
}

/// Weights of each stage's rank. A rank holds whole groups of the output projection, o_proj_tp-th parts of
/// it: of Flash over 16 ranks an eighth, 44 x (1,024 x 2,048 and 128 float scales) more than a sixteenth of
/// wo_a would be.
struct KnownWeights {
  const char* preset;
  ParallelPlan plan;
  std::vector<Stage> stages;
  std::vector<std::int64_t> bytes;
};

std::vector<KnownWeights> known_weights() {
  const ParallelPlan one{.num_devices = 1}, tp8{.num_devices = 8, .tp = 8}, tp2{.num_devices = 8, .tp = 2},
      moe_tp{.num_devices = 16, .tp = 4, .ep = 4, .moe_tp = 4},
      stages{.num_devices = 32, .tp = 4, .pp = 2, .redundant_experts = 32}, tp16{.num_devices = 16, .tp = 16},
      apart{.num_devices = 8, .tp = 4, .o_proj_tp = 2, .lmhead_tp = 1, .sequence_parallel = true};
  const auto two = [](std::int64_t cut, std::int64_t end) {
    return std::vector<Stage>{{.begin = 0, .end = cut, .first = true, .last = false},
                              {.begin = cut, .end = end, .first = false, .last = true}};
  };
  return {{"flash", one, {}, {159602253312}},
          {"flash", tp8, {}, {22061715968}},
          {"flash", tp2, {}, {25089334784}},
          {"flash", moe_tp, {}, {14304984576}},
          {"flash", stages, two(22, 43), {8110512640, 8430035968}},
          {"flash", tp16, {}, {12422003200}},
          {"flash", apart, {}, {25249676800}},
          {"pro", one, {}, {864701953024}},
          {"pro", tp8, {}, {112929848832}},
          {"pro", tp2, {}, {123842299392}},
          {"pro", moe_tp, {}, {66736426496}},
          {"pro", stages, two(31, 61), {36199297792, 36742208256}},
          {"pro", tp16, {}, {63072515072}},
          {"pro", apart, {}, {123208316416}}};
}

TEST(RankMemory, WeightsOfRanksToTheByte) {
  for (const KnownWeights& known : known_weights()) {
    const ModelConfig config = preset_config(known.preset);
    const ParallelPlan plan = resolved(known.plan, config);
    SCOPED_TRACE(std::string(known.preset) + ", " + to_text(plan));
    std::vector<Stage> stages = known.stages;
    if (stages.empty()) stages.push_back({.begin = 0, .end = config.num_hidden_layers});
    for (std::size_t s = 0; s < stages.size(); ++s) {
      const RankModel model(config, {}, plan, stages[s]);
      EXPECT_EQ(device_weight_bytes(model.weights()), known.bytes[s]);
      EXPECT_EQ(device_weight_bytes(model.config(), model.formats()), known.bytes[s]);
    }
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
