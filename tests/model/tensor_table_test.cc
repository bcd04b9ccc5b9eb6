// The table of tensors against the published totals of the released checkpoints.
#include "model/tensor_table.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "model/model_folder.h"
#include "model/presets.h"
#include "model/rank_config.h"
#include "model/weight_binding.h"

namespace baleen {
namespace {

struct Totals {
  std::int64_t num_tensors = 0;
  std::int64_t elements = 0;
  std::int64_t bytes = 0;
  std::int64_t routed_expert_bytes = 0;
  std::map<DType, std::int64_t> by_dtype;
};

Totals totals_of(const ModelConfig& config, const StorageFormats& formats = {}) {
  Totals totals;
  for (const TensorSpec& spec : tensor_table(config)) {
    for (const TensorHeader& tensor : stored_tensors(spec, formats)) {
      ++totals.num_tensors;
      totals.elements += tensor.num_elements();
      totals.bytes += tensor.size_bytes();
      if (spec.role == TensorRole::kRoutedExpert) totals.routed_expert_bytes += tensor.size_bytes();
      ++totals.by_dtype[tensor.dtype];
    }
  }
  return totals;
}

TEST(TensorTable, FlashTotals) {
  const Totals totals = totals_of(preset_config("flash"));
  EXPECT_EQ(totals.num_tensors, 69'187);
  EXPECT_EQ(totals.elements, 158'069'433'298);
  EXPECT_EQ(totals.bytes, 159'609'485'896);
  EXPECT_EQ(totals.routed_expert_bytes, 150'592'290'816);
  EXPECT_EQ(totals.by_dtype, (std::map<DType, std::int64_t>{{DType::kBF16, 433},
                                                            {DType::kF32, 417},
                                                            {DType::kF8E4M3, 375},
                                                            {DType::kF8E8M0, 34'167},
                                                            {DType::kI8, 33'792},
                                                            {DType::kI64, 3}}));
}

TEST(TensorTable, ProTotals) {
  const Totals totals = totals_of(preset_config("pro"));
  EXPECT_EQ(totals.num_tensors, 145'116);
  EXPECT_EQ(totals.elements, 861'608'274'846);
  EXPECT_EQ(totals.bytes, 864'704'792'696);
  EXPECT_EQ(totals.routed_expert_bytes, 835'530'522'624);
  EXPECT_EQ(totals.by_dtype, (std::map<DType, std::int64_t>{{DType::kBF16, 619},
                                                            {DType::kF32, 590},
                                                            {DType::kF8E4M3, 528},
                                                            {DType::kF8E8M0, 71'952},
                                                            {DType::kI8, 71'424},
                                                            {DType::kI64, 3}}));
}

TEST(TensorTable, BenchPresetSize) {
  const std::int64_t bytes = totals_of(preset_config("bench-1b")).bytes;
  EXPECT_GT(bytes, 1'150'000'000);
  EXPECT_LT(bytes, 1'250'000'000);
}

TEST(TensorTable, NamesAreDistinct) {
  for (const char* preset : {"tiny-flash", "tiny-real-heads", "bench-1b"}) {
    std::set<std::string> names;
    for (const TensorSpec& spec : tensor_table(preset_config(preset))) {
      for (const TensorHeader& tensor : stored_tensors(spec, {}))
        EXPECT_TRUE(names.insert(tensor.name).second);
    }
  }
}

ModelConfig tiny_dspark() {
  ModelConfig config = preset_config("tiny-flash");
  config.num_nextn_predict_layers = 3;
  config.compress_ratios.insert(config.compress_ratios.end(), 2, 0);
  config.draft_kind = DraftKind::kDspark;
  config.dspark = {.block_size = 5, .noise_token_id = 511, .target_layer_ids = {2, 3, 4}, .markov_rank = 8};
  return config;
}

/// What blocks of a draft head have beside what layers have, as "mtp.0.e_proj [256, 256]".
std::set<std::string> own_rows(const ModelConfig& config) {
  std::set<std::string> of_every_block, own;
  for (const bool drafts : {false, true}) {
    for (const TensorSpec& spec : tensor_table(config)) {
      EXPECT_EQ(spec.of_draft_head, spec.name.starts_with("mtp."));
      const std::size_t prefix = spec.block < 0 ? 0 : block_prefix(config, spec.block).size();
      if (!drafts && !spec.of_draft_head) of_every_block.insert(spec.name.substr(prefix));
      if (drafts && spec.of_draft_head && !of_every_block.contains(spec.name.substr(prefix)))
        own.insert(fmt::format("{} [{}]", spec.name, fmt::join(spec.shape, ", ")));
    }
  }
  return own;
}

/// A stage between the first and the last has nothing of its own; the last one's norm and mixing are named as
/// the model's.
TEST(TensorTable, RowsOfDraftHeads) {
  EXPECT_EQ(own_rows(preset_config("tiny-flash")),
            (std::set<std::string>{"mtp.0.e_proj [256, 256]", "mtp.0.enorm.weight [256]",
                                   "mtp.0.h_proj [256, 256]", "mtp.0.hnorm.weight [256]"}));
  EXPECT_EQ(own_rows(tiny_dspark()),
            (std::set<std::string>{"mtp.0.main_norm.weight [256]", "mtp.0.main_proj [256, 768]",
                                   "mtp.2.confidence_head.proj.weight [1, 264]",
                                   "mtp.2.markov_head.markov_w1.weight [512, 8]",
                                   "mtp.2.markov_head.markov_w2.weight [512, 8]"}));
  EXPECT_TRUE(own_rows(without_drafts(tiny_dspark())).empty());
}

TEST(TensorTable, RowsOfDsparkOnOneOfFourRanks) {
  std::map<std::string, std::string> rows;
  const ModelConfig config = tiny_dspark();
  const RankConfig rank(config, {.begin = 0, .end = config.num_hidden_layers}, {.lm_head_tp = 4});
  for (const TensorSpec& spec : rank_table(rank))
    rows[spec.name] = fmt::format("{} [{}]", split_name(spec.split), fmt::join(spec.shape, ", "));
  EXPECT_EQ(rows.at("mtp.2.markov_head.markov_w1.weight"), "replicated [512, 8]");
  EXPECT_EQ(rows.at("mtp.2.markov_head.markov_w2.weight"), "replicated [512, 8]");
  EXPECT_EQ(rows.at("head.weight"), "rows by token [128, 256]");
  EXPECT_EQ(rows.at("mtp.0.main_proj"), "replicated [256, 768]");
}

TEST(TensorTable, ConfigOfDsparkIsReadBack) {
  const ModelConfig config = tiny_dspark();
  EXPECT_EQ(parse_config(config_text(config), "config", DraftBlocks{DraftKind::kDspark, 3}), config);
  EXPECT_EQ(parse_config(config_text(config), "config"), without_drafts(config));
  EXPECT_EQ(parse_config(config_text(config), "config", DraftBlocks{}), without_drafts(config));
}

TEST(TensorTable, FormatsOfADraftHead) {
  const StorageFormats formats{.draft_experts = StoredFormat{WeightFormat::kFp8, DType::kF32}};
  for (const TensorSpec& spec : tensor_table(tiny_dspark())) {
    const bool own = spec.of_draft_head && spec.storage == Storage::kExpert;
    const StoredFormat want = own ? StoredFormat{WeightFormat::kFp8, DType::kF32}
                              : spec.storage == Storage::kExpert
                                  ? StoredFormat{WeightFormat::kFp4, DType::kF8E8M0}
                                  : StoredFormat{WeightFormat::kFp8, DType::kF8E8M0};
    EXPECT_EQ(formats.stored(spec), want) << spec.name;
  }
}

TEST(TensorTable, FormatsOfOneMatrix) {
  const TensorSpec matrix{"x", {192, 256}, Storage::kExpert, TensorRole::kRoutedExpert, 0};
  const auto text = [&](StorageFormats formats) {
    std::string all;
    for (const TensorHeader& tensor : stored_tensors(matrix, formats)) {
      all += tensor.name + " " + tensor.type_text() + ";";
    }
    return all;
  };
  EXPECT_EQ(text({}), "x.weight I8 [192, 128];x.scale F8_E8M0 [192, 8];");
  EXPECT_EQ(text({.experts = WeightFormat::kFp8}), "x.weight F8_E4M3 [192, 256];x.scale F8_E8M0 [2, 2];");
  EXPECT_EQ(text({.experts = WeightFormat::kFp8, .expert_scale = DType::kF32}),
            "x.weight F8_E4M3 [192, 256];x.scale F32 [2, 2];");
  EXPECT_EQ(text({.experts = WeightFormat::kBF16}), "x.weight BF16 [192, 256];");
}

TEST(TensorTable, BundledModelFits) {
  if (!std::filesystem::exists("models/stories/config.json")) GTEST_SKIP() << "no bundled model";
  EXPECT_EQ(mismatches(load_config("models/stories"), Checkpoint("models/stories")),
            std::vector<std::string>{});
}

/// Of V4.1 FP8 has blocks of 32 x 32, and activations groups of 32 in front of FP4, too.
TEST(TensorTable, FamiliesDifferInBlocksAndGroups) {
  for (const ModelFamily* family : {&kDeepSeekV4, &kDeepSeekV41}) {
    ModelConfig config = preset_config("tiny-flash");
    config.family = family;
    config.dense_format = config.fp8_format();
    const StorageFormats formats{.dense = config.dense_format, .dense_scale = DType::kF32};
    const std::byte anything{};
    const WeightTree tree = bind_weights(config, tensor_table(config), formats,
                                         [&](const HeldArray& /*array*/) { return &anything; });
    const int group = family == &kDeepSeekV4 ? 128 : 32;
    const BlockWeights& block = tree.block(1);
    for (const WeightMatrix* dense : {&block.attention.wq_a, &block.attention.wo_a, &block.moe.shared.w2}) {
      EXPECT_EQ(dense->layout().scale_rows, group);
      EXPECT_EQ(dense->layout().scale_cols, group);
      EXPECT_EQ(dense->activation_group, group);
      EXPECT_EQ(dense->group_scales != nullptr, group == 32) << "scales of small blocks are held as stored";
    }
    EXPECT_EQ(block.moe.routed.front().w1.format, WeightFormat::kFp4);
    EXPECT_EQ(block.moe.routed.front().w1.activation_group, group);
    for (const TensorSpec& spec : tensor_table(config)) {
      if (spec.name != "layers.1.ffn.shared_experts.w1") continue;
      const std::vector<TensorHeader> stored = stored_tensors(spec, formats);
      ASSERT_EQ(stored.size(), 2U);
      EXPECT_EQ(stored[1].dtype, group == 32 ? DType::kF8E8M0 : DType::kF32);
      const std::vector<std::int64_t> blocks{(spec.shape[0] + group - 1) / group,
                                             (spec.shape[1] + group - 1) / group};
      EXPECT_EQ(stored[1].shape, blocks);
    }
  }
}

}  // namespace
}  // namespace baleen
