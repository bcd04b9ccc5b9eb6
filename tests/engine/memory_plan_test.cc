// The plan against what an engine takes: it is computed before anything is loaded, and holds.
#include "engine/memory_plan.h"

#include <gtest/gtest.h>

#include <fstream>

#include "engine/engine.h"
#include "engine/engine_limits.h"
#include "forward/forward.h"
#include "model/cache_geometry.h"
#include "tests/support/random_checkpoint.h"
#include "tests/support/run_sequence.h"

namespace baleen {
namespace {

TEST(MemoryPlan, IsTheSumOfItsParts) {
  const ModelConfig config = preset_config("flash");
  const EngineOptions options =
      resolved({.num_threads = 2, .max_sequences = 3, .cache_tokens = 100'000}, config);
  const MemoryPlan plan = plan_memory(config, StorageFormats(), options);
  const CacheGeometry geometry = cache_geometry(config, Precision::kReleased);
  EXPECT_EQ(plan.capacity.num_pages, 391 + 2);  // every sequence may leave its last page part empty
  EXPECT_EQ(plan.capacity.num_state_slots, 3);
  EXPECT_EQ(plan.page_bytes, plan.capacity.num_pages * geometry.page_bytes());
  EXPECT_EQ(plan.window_bytes, plan.capacity.num_window_pages * geometry.window_page_bytes());
  EXPECT_EQ(plan.state_bytes, 3 * geometry.state_slot_bytes());
  EXPECT_EQ(plan.cache_bytes(), plan.capacity.total_bytes(geometry));
  EXPECT_EQ(plan.logit_bytes, 3 * 129'280 * 4);
  EXPECT_EQ(plan.total_bytes(),
            plan.cache_bytes() + plan.activation_bytes + plan.scratch_bytes + plan.logit_bytes);
}

TEST(MemoryPlan, OneMillionPositionsOfFlashTakeThePublishedBytes) {
  const ModelConfig config = preset_config("flash");
  const MemoryPlan plan = plan_memory(config, StorageFormats(), resolved({.num_threads = 1}, config));
  EXPECT_EQ(plan.capacity.num_pages, 4096);
  EXPECT_NEAR(static_cast<double>(plan.page_bytes), 3.69e9,
              0.06e9);  // 3.685 GB of rows, 1.4 % more for page strides
}

TEST(MemoryPlan, DefaultsAreTheModelsContextForOneSequence) {
  const ModelConfig config = preset_config("tiny-flash");
  const EngineOptions options = resolved(EngineOptions(), config);
  EXPECT_EQ(options.cache_tokens, config.max_position_embeddings);
  EXPECT_EQ(options.max_logit_rows, 1);
  EXPECT_GE(options.num_threads, 1);
}

TEST(EngineLimits, AGpuChoosesTokensAndRunsAhead) {
  const ModelConfig config = preset_config("flash");
  const auto limits = [&](const EngineOptions& options) {
    return engine_limits(config, resolved(options, config));
  };
  const DeviceChoice gpu = planned_gpu();
  EXPECT_TRUE(limits({.device = gpu}).chooses);
  EXPECT_TRUE(limits({.device = gpu}).runs_ahead);
  EXPECT_TRUE(
      limits({.device = gpu, .prefix_cache = true, .disk = DiskCacheOptions{.folder = "pages"}}).runs_ahead);
  EXPECT_TRUE(limits({.device = gpu, .drafts = true}).runs_ahead);
  EXPECT_TRUE(limits({.device = gpu, .drafts = true}).queues);
  EXPECT_FALSE(limits({.device = gpu, .choose_on_device = false}).runs_ahead);
  EXPECT_FALSE(limits({.device = gpu, .choose_on_device = false}).queues);
  EXPECT_FALSE(limits({}).chooses);
  EXPECT_FALSE(limits({}).runs_ahead);
  EXPECT_TRUE(limits({.choose_on_device = true}).runs_ahead);
}

TEST(MemoryPlan, CopiesForInt8ArePartOfIt) {
  const ModelConfig config = preset_config("flash");
  const auto copies = [&](std::vector<ForcedVariant> forced, bool mtp = false) {
    const EngineOptions options =
        resolved({.num_threads = 2, .drafts = mtp, .forced_variants = forced}, config);
    const MemoryPlan plan = plan_memory(config, StorageFormats(), options);
    EXPECT_EQ(plan.total_bytes(), plan.cache_bytes() + plan.activation_bytes + plan.scratch_bytes +
                                      plan.logit_bytes + plan.int8_copy_bytes);
    return plan.int8_copy_bytes;
  };
  EXPECT_EQ(copies({}), 0);
  EXPECT_EQ(copies({{"linear", "reference"}}), 0);
  // Shared experts: three matrices of 4096 by 2048 in each of 43 layers, a byte a weight and a scale for 32.
  EXPECT_EQ(copies({{"experts", "int8"}}), 43 * 3 * (4096 * 2048) / 32 * 33);
  const std::int64_t linear = copies({{"linear", "int8"}}), grouped = copies({{"grouped_linear", "int8"}});
  EXPECT_GT(linear, 0);
  EXPECT_GT(grouped, 0);
  EXPECT_EQ(copies({{"", "int8"}}), linear + grouped + copies({{"experts", "int8"}}));
  EXPECT_EQ(copies({{"", "int8"}, {"experts", "simd"}}), linear + grouped);
  EXPECT_GT(copies({{"linear", "int8"}}, true), linear);
}

TEST(MemoryPlan, CachedPrefixesAndDraftsArePartOfIt) {
  const ModelConfig config = preset_config("flash");
  const EngineOptions plain = resolved({.num_threads = 2, .max_sequences = 3, .drafts = true}, config);
  EngineOptions options = plain;
  options.prefix_cache = true;
  options.max_draft_tokens = 2;
  options = resolved(options, config);
  EXPECT_GE(options.cached_window_pages, 32);
  const MemoryPlan plan = plan_memory(config, StorageFormats(), options),
                   without = plan_memory(config, StorageFormats(), plain);
  const CacheGeometry geometry = cache_geometry(config, options);
  EXPECT_TRUE(geometry.shares_prefixes);
  EXPECT_EQ(plan.capacity.num_window_pages,
            max_window_pages(geometry, 3, options.max_batch_tokens) + options.cached_window_pages);
  EXPECT_EQ(plan.cached_window_pages, options.cached_window_pages);
  EXPECT_EQ(plan.window_bytes, plan.capacity.num_window_pages * geometry.window_page_bytes());
  EXPECT_GT(plan.state_bytes, without.state_bytes);  // longer rings
  // Two more kept streams of each sequence, and one of its drafts.
  EXPECT_EQ(plan.activation_bytes - without.activation_bytes, 3 * (2 + 1) * config.hc_dim() * 4);
  EXPECT_NE(to_text(plan).find(fmt::format("{} for cached prefixes", options.cached_window_pages)),
            std::string::npos);
  EXPECT_EQ(without.cached_window_pages, 0);
  EXPECT_THROW(static_cast<void>(resolved({.cached_window_pages = -1}, config)), Error);
}

TEST(MemoryPlan, TextNamesEveryPart) {
  const ModelConfig config = preset_config("tiny-flash");
  const std::string text =
      to_text(plan_memory(config, StorageFormats(), resolved({.num_threads = 1}, config)));
  for (const char* part : {"cache", "4096 pages of 256 positions", "window pages", "state slots",
                           "activations", "scratch", "logits", "in all"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
}

std::int64_t address_space_bytes() {
  std::int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * 4096;
}

/// Outputs of experts that are split are float32 until they are added; half of the columns are of this rank.
TEST(MemoryPlan, OfGpusThatSplitExperts) {
  const ModelConfig config = preset_config("flash");
  const DeviceChoice first = planned_gpu(), second = planned_gpu(1);
  const auto plan_of = [&](const ParallelPlan& parallel) {
    EngineOptions wanted{.device = first, .rank_devices = {first, second}, .parallel = parallel};
    wanted.max_batch_tokens = 4096;
    const EngineOptions options = resolved(wanted, config);
    const RankLayout layout(config, options.parallel, even_stage(config, 1, 0), 0, 1);
    return plan_rank_memory(config, 1, layout, options);
  };
  const MemoryPlan split = plan_of({.num_devices = 2, .tp = 2, .moe_tp = 2}),
                   whole = plan_of({.num_devices = 2, .tp = 2}),
                   shared = plan_of({.num_devices = 2, .tp = 2, .shared_tp = 2});
  EXPECT_EQ(shared.scratch_bytes - whole.scratch_bytes, 2LL * 4096 * (4096 * 7 + 3 * 129));
  EXPECT_EQ(split.scratch_bytes - whole.scratch_bytes, 2LL * 4096 * (4096 * 7 + 3 * 257));
  EXPECT_THROW(static_cast<void>(plan_of({.num_devices = 2, .dp = 2, .ep = 1, .moe_tp = 2})), Error);
}

TEST(MemoryPlan, IsWhatAnEngineReserves) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers reserve memory of their own";
#endif
  const test::RandomCheckpoint checkpoint("tiny-real-heads", 1);
  const std::int64_t before = address_space_bytes();
  const Engine engine(checkpoint.path(), {.num_threads = 1,
                                          .max_batch_tokens = 2048,
                                          .max_sequences = 4,
                                          .max_draft_tokens = 3,
                                          .prefix_cache = true});
  const std::int64_t reserved = address_space_bytes() - before;
  const std::int64_t planned =
      engine.plan().total_bytes() + engine.weights().mapped_bytes() + engine.weights().owned_bytes();
  ASSERT_GT(planned, 500'000'000);
  EXPECT_NEAR(static_cast<double>(reserved), static_cast<double>(planned),
              8e6);  // the allocator's own, file headers
}

TEST(MemoryPlan, ScratchSufficesForTheLargestStep) {
  // An operation that takes more than was planned stops the program.
  for (const char* preset : {"tiny-flash", "tiny-real-heads"}) {
    const test::RandomCheckpoint checkpoint(preset, 1);
    for (const Precision precision : {Precision::kExact, Precision::kBf16, Precision::kReleased}) {
      for (const int num_threads : {1, 3}) {
        for (const std::int64_t rows : {1, 97}) {
          Engine engine(checkpoint.path(), {.precision = precision,
                                            .num_threads = num_threads,
                                            .max_batch_tokens = rows,
                                            .max_logit_rows = rows,
                                            .cache_tokens = 256,
                                            .drafts = true});
          const auto tokens = test::random_tokens(2 * rows, 512, 1);
          EXPECT_NO_THROW(
              static_cast<void>(test::run_sequence(engine, tokens, static_cast<std::size_t>(rows))));
        }
      }
    }
  }
}

/// How messages go and how rows get to experts are one choice, whichever of the two is named.
TEST(GpuMessages, GoOneWayForAllOperations) {
  const ModelConfig config = preset_config("flash");
  const auto with = [&](const ParallelPlan& plan, GpuMessages messages) {
    EngineOptions options{.device = planned_gpu(), .parallel = plan};
    options.messages = messages;
    for (int rank = 0; rank < 2; ++rank) options.rank_devices.push_back(planned_gpu(rank));
    return resolved(options, config);
  };
  const auto by = [](ExpertTransport transport) {
    return ParallelPlan{.dp = 2, .expert_transport = transport};
  };
  const EngineOptions automatic = with({.dp = 2}, GpuMessages::kAutomatic);
  EXPECT_EQ(automatic.messages, GpuMessages::kPeerMemory);
  EXPECT_EQ(automatic.parallel.expert_transport, ExpertTransport::kAutomatic);
  EXPECT_EQ(with({.dp = 2}, GpuMessages::kNccl).parallel.expert_transport, ExpertTransport::kNccl);
  EXPECT_EQ(with({.tp = 2}, GpuMessages::kNccl).parallel.expert_transport, ExpertTransport::kAutomatic)
      << "sums of ranks with the same tokens";
  EXPECT_EQ(with(by(ExpertTransport::kNccl), GpuMessages::kAutomatic).messages, GpuMessages::kNccl);
  for (const ExpertTransport peers : {ExpertTransport::kPeerMemory, ExpertTransport::kFused}) {
    EXPECT_EQ(with(by(peers), GpuMessages::kAutomatic).messages, GpuMessages::kPeerMemory);
    EXPECT_THROW(static_cast<void>(with(by(peers), GpuMessages::kNccl)), Error);
  }
  EXPECT_THROW(static_cast<void>(with(by(ExpertTransport::kNccl), GpuMessages::kPeerMemory)), Error);
}

}  // namespace
}  // namespace baleen
