// Figures of the released models that the specification recomputes (simulation 10).

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "forward/forward.h"
#include "model/cache_geometry.h"
#include "model/presets.h"
#include "model/tensor_table.h"
#include "simulator/graph/op_graph.h"
#include "simulator/graph/v32_geometry.h"

namespace baleen {
namespace {

struct Known {
  const char* preset;
  std::int64_t bytes_beside_experts, bytes_of_experts;
  double weight_bytes_a_token;
  double cache_mb_4k, cache_mb_64k, cache_mb_1m;
  std::int64_t cache_held_1m;
  double gflops_1m, gflops_fp8_1m;
  double share_of_v32_flops, share_of_v32_cache;
};

constexpr Known kFlash{.preset = "flash",
                       .bytes_beside_experts = 9'017'195'080,
                       .bytes_of_experts = 150'592'290'816,
                       .weight_bytes_a_token = 11'217'572'060,
                       .cache_mb_4k = 11.33,
                       .cache_mb_64k = 38.87,
                       .cache_mb_1m = 479.5,
                       .cache_held_1m = 3'688'172'544,
                       .gflops_1m = 140.3,
                       .gflops_fp8_1m = 123.6,
                       .share_of_v32_flops = 0.103,
                       .share_of_v32_cache = 0.0732};
constexpr Known kPro{.preset = "pro",
                     .bytes_beside_experts = 29'174'270'072,
                     .bytes_of_experts = 835'530'522'624,
                     .weight_bytes_a_token = 39'666'603'980,
                     .cache_mb_4k = 25.17,
                     .cache_mb_64k = 65.19,
                     .cache_mb_1m = 705.6,
                     .cache_held_1m = 5'280'404'480,
                     .gflops_1m = 303.2,
                     .gflops_fp8_1m = 327.6,
                     .share_of_v32_flops = 0.274,
                     .share_of_v32_cache = 0.1048};

/// Bytes from the published list of tensors, less those that are left unread; the others from the sizes of
/// config.json: 38 layers read 512 entries of 288 bytes, 3 sources score n / 2 keys of 68 bytes, the fourth
/// n, four layers the keys of 16,384 candidates at most.
constexpr Known kV41Flash{.preset = "v41-flash",
                          .bytes_beside_experts = 213'318'146'904,
                          .bytes_of_experts = 295'997'276'160,
                          .weight_bytes_a_token = 13'035'013'568,
                          .cache_mb_4k = 10.12,
                          .cache_mb_64k = 23.90,
                          .cache_mb_1m = 191.0,
                          .cache_held_1m = 935'936'000,
                          .gflops_1m = 57.5,
                          .gflops_fp8_1m = 54.0,
                          .share_of_v32_flops = 0.0451,
                          .share_of_v32_cache = 0.0186};

class KnownAnswers : public testing::TestWithParam<Known> {
 protected:
  KnownAnswers()
      : config_(preset_config(GetParam().preset)),
        formats_{.dense = config_.dense_format, .experts = config_.expert_format},
        model_(config_, formats_, resolved({.num_devices = 1}, config_)) {}

  /// One token behind `positions - 1` others.
  [[nodiscard]] OpCost token_at(std::int64_t positions) const {
    return record_step(model_, {{.start = positions - 1, .num_tokens = 1, .num_logits = 1}}, {}, {})
        .total_cost();
  }

  ModelConfig config_;
  StorageFormats formats_;
  RankModel model_;
};

TEST_P(KnownAnswers, StoredBytes) {
  std::int64_t experts = 0, others = 0;
  for (const TensorSpec& spec : tensor_table(config_)) {
    (spec.role == TensorRole::kRoutedExpert ? experts : others) += stored_bytes({spec}, formats_);
  }
  EXPECT_EQ(others, GetParam().bytes_beside_experts);
  EXPECT_EQ(experts, GetParam().bytes_of_experts);
}

TEST_P(KnownAnswers, WeightsThatOneTokenReads) {
  EXPECT_EQ(token_at(4096).weight_bytes, GetParam().weight_bytes_a_token);
}

TEST_P(KnownAnswers, CacheThatOneTokenReads) {
  EXPECT_NEAR(1e-6 * token_at(4096).cache_bytes, GetParam().cache_mb_4k, 0.005);
  EXPECT_NEAR(1e-6 * token_at(65536).cache_bytes, GetParam().cache_mb_64k, 0.005);
  EXPECT_NEAR(1e-6 * token_at(1 << 20).cache_bytes, GetParam().cache_mb_1m, 0.05);
}

TEST_P(KnownAnswers, FlopsOfATokenAtAMillion) {
  const OpCost cost = token_at(1 << 20);
  EXPECT_NEAR(1e-9 * cost.matrix_flops(), GetParam().gflops_1m, 0.05);
  const double fp8 = fp8_equivalent_flops(cost);
  EXPECT_NEAR(1e-9 * fp8, GetParam().gflops_fp8_1m, 0.05);
  EXPECT_NEAR(fp8 / fp8_equivalent_flops(v32_token_cost(1 << 20)), GetParam().share_of_v32_flops, 5e-4);
}

TEST_P(KnownAnswers, CacheHeldAtAMillion) {
  const CacheGeometry geometry = cache_geometry(config_, Precision::kReleased);
  // Entries and keys of all positions, and the main layers' windows.
  const double held = geometry.bytes_per_token() * (1 << 20) +
                      static_cast<double>(config_.num_hidden_layers * geometry.window_bytes());
  EXPECT_NEAR(held, static_cast<double>(GetParam().cache_held_1m), 1);
  EXPECT_NEAR(held / static_cast<double>(v32_cache_bytes(1 << 20)), GetParam().share_of_v32_cache, 5e-4);
}

TEST(V32Geometry, TheFigureThatTheReportComparesWith) {
  EXPECT_NEAR(1e-9 * fp8_equivalent_flops(v32_token_cost(1 << 20)), 1196.7, 0.05);
  EXPECT_NEAR(1e-9 * static_cast<double>(v32_cache_bytes(1 << 20)), 50.4, 0.05);
}

/// V4.1's stages have 128 experts, of which each of the block's rows chooses 3.
TEST(DraftsOfV41, ReadTheirOwnExperts) {
  const ModelConfig config = preset_config("v41-flash");
  const RankModel model(config, {.dense = config.dense_format, .experts = config.expert_format},
                        resolved({.num_devices = 1}, config));
  const Workload work{.context_length = 4096, .decode = true, .num_drafts = 3};
  constexpr std::int64_t kRows = 4, kBlock = 5;
  const OpGraph graph =
      record_step(model, {{.start = 4096, .num_tokens = kRows, .num_logits = kRows}}, work, {});
  constexpr double kExpertBytes = 3 * 5120.0 * 2304 * 17 / 32;
  constexpr double kSharedBytes = 3 * (5120.0 * 2304 + 160 * 72);
  const auto distinct = [](double experts, double chosen, double rows) {
    return experts * (1 - std::pow(1 - chosen / experts, rows));
  };
  int layers = 0, stages = 0;
  for (const GraphOp& op : graph.ops) {
    if (op.name != "experts") continue;
    const bool is_draft = op.part == GraphPart::kDraft;
    (is_draft ? stages : layers) += 1;
    EXPECT_NEAR(op.cost.weight_bytes,
                kSharedBytes + kExpertBytes * (is_draft ? distinct(128, 3, kBlock) : distinct(384, 6, kRows)),
                1)
        << op.block;
  }
  EXPECT_EQ(layers, 40);
  EXPECT_EQ(stages, 3);
}

/// What a layer of each kind runs beside the operations that all have.
TEST(LayersOfV41, RunWhatTheirKindNeeds) {
  const ModelConfig config = preset_config("v41-flash");
  const RankModel model(config, {.dense = config.dense_format, .experts = config.expert_format},
                        resolved({.num_devices = 1}, config));
  const OpGraph graph = record_step(model, {{.start = 4095, .num_tokens = 1, .num_logits = 1}}, {}, {});
  const auto blocks_with = [&](std::string_view name) {
    std::vector<std::int64_t> blocks;
    for (const GraphOp& op : graph.ops)
      if (op.name == name) blocks.push_back(op.block);
    return blocks;
  };
  using Blocks = std::vector<std::int64_t>;
  EXPECT_EQ(blocks_with("latent"), (Blocks{2, 8, 14, 20}));
  EXPECT_EQ(blocks_with("entry_store"), (Blocks{2, 8, 14, 20}));
  EXPECT_EQ(blocks_with("indexer"), (Blocks{2, 8, 14, 20, 24, 28, 32, 36}));
  // What the streams of a block are given before its attention counts with the block before.
  EXPECT_EQ(blocks_with("engram_lookup"), (Blocks{0, 13}));
  EXPECT_EQ(blocks_with("engram"), (Blocks{0, 13}));
  EXPECT_EQ(blocks_with("sparse_attention_rope").size(), 40U);
  EXPECT_EQ(blocks_with("compressor"), Blocks{});
}

/// Layers 20 to 39 on the last tokens of each prompt alone, entries of layer 20 of all, on one device and on
/// the stage that has them.
TEST(BoundedReplay, DecoderHalfHasTheRowsThatGoOn) {
  const ModelConfig config = preset_config("v41-flash");
  const Workload work{.num_queries = 2, .query_length = 1000, .bounded_replay = 128};
  const StorageFormats formats{.dense = config.dense_format, .experts = config.expert_format};
  const ParallelPlan one = resolved({.num_devices = 1}, config), two = resolved({.pp = 2}, config);
  const RankModel whole(config, formats, one), last(config, formats, two, stage_of(config, two, 1));
  for (const RankModel* model : {&whole, &last}) {
    const std::int64_t first = model->stage().begin;
    const OpGraph graph = record_step(*model, rank_batch(work, one), work, {});
    std::int64_t num_experts = 0;
    for (const GraphOp& op : graph.ops) {
      if (op.name == "experts") {
        EXPECT_EQ(op.num_rows, first + op.block < 20 ? 2000 : 256) << op.block;
        ++num_experts;
      }
      if (op.name == "entry_store" && first + op.block == 20) {
        EXPECT_EQ(op.num_rows, 2000);
      }
    }
    EXPECT_EQ(num_experts, 40 - first);
    // None of a piece whose prompt goes on: layer 20 makes its entries alone.
    const Workload piece{.query_length = 500, .bounded_replay = 128, .prompt_behind = 500};
    for (const GraphOp& op : record_step(*model, rank_batch(piece, one), piece, {}).ops) {
      if (op.name == "experts") {
        EXPECT_LT(first + op.block, 20);
      }
    }
  }
}

/// Beside a piece of a prompt none of whose rows goes on, those of other sequences do, and see whole windows.
TEST(BoundedReplay, SequencesThatDecodeBesideAPromptSeeWholeWindows) {
  const ModelConfig config = preset_config("v41-flash");
  const StorageFormats formats{.dense = config.dense_format, .experts = config.expert_format};
  const RankModel model(config, formats, resolved({.num_devices = 1}, config));
  const QueryPart piece{.start = 0, .num_tokens = 500, .num_logits = 0, .decoder_begin = 3000},
      decode{.start = 5000, .decoder_begin = 4000 - 128};
  const auto attention = [&](const RankBatch& batch) {
    std::vector<double> flops;
    for (const GraphOp& op : record_step(model, batch, {}, {}).ops) {
      if (op.name.starts_with("sparse_attention") && op.block > 20) flops.push_back(op.cost.matrix_flops());
    }
    return flops;
  };
  EXPECT_FALSE(attention({decode}).empty());
  EXPECT_EQ(attention({piece, decode}), attention({decode}));
  EXPECT_EQ(attention({piece}).size(), 0U);
  // Behind a prompt no row sees less of a window: it is a step as any other.
  QueryPart without = decode;
  without.decoder_begin = 0;
  EXPECT_EQ(attention({decode}), attention({without}));
}

INSTANTIATE_TEST_SUITE_P(Released, KnownAnswers, testing::Values(kFlash, kPro, kV41Flash),
                         [](const auto& known) {
                           std::string name = known.param.preset;
                           std::erase(name, '-');
                           return name;
                         });

}  // namespace
}  // namespace baleen
