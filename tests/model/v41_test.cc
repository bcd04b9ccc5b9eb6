// DeepSeek-V4.1-Flash as data: its config, its layers as values, its table against the published tensors,
// what its cache keeps, and what another release of the family may not have without being named.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "model/cache_geometry.h"
#include "model/model_family.h"
#include "model/model_folder.h"
#include "model/parallel_plan.h"
#include "model/presets.h"
#include "model/rank_layout.h"
#include "model/stage_layers.h"
#include "model/tensor_table.h"
#include "tests/support/header_only.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/v41_headers.h"

namespace baleen {
namespace {

using Json = nlohmann::ordered_json;

constexpr DraftBlocks kStages{DraftKind::kDspark, 3};

ModelConfig v41_flash() { return parse_config(test::v41_config().dump(), "config.json", kStages); }

std::string v41_refusal(const Json& config) {
  try {
    static_cast<void>(parse_config(config.dump(), "config.json", kStages));
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(V41Config, FieldsOfTheRelease) {
  const ModelConfig config = v41_flash();
  EXPECT_EQ(config.family, &kDeepSeekV41);
  EXPECT_EQ(config.hidden_size, 5120);
  EXPECT_EQ(config.rms_norm_eps, 1e-20);
  EXPECT_EQ(config.num_hash_layers, 0);
  EXPECT_EQ(config.expert_format, WeightFormat::kFp4);
  EXPECT_EQ(config.dense_format, WeightFormat::kFp8x32);
  EXPECT_EQ(config.num_draft_blocks(), 3);
  const DsparkConfig dspark{.block_size = 5,
                            .noise_token_id = 128799,
                            .target_layer_ids = {37, 38, 39},
                            .markov_rank = 256,
                            .n_routed_experts = 128,
                            .num_experts_per_tok = 3};
  EXPECT_EQ(config.dspark, dspark);
  EXPECT_EQ(config.num_routed_experts(39), 384);
  EXPECT_EQ(config.num_routed_experts(40), 128);
  EXPECT_EQ(config.engram->num_hashes(), 24);
  EXPECT_EQ(config.engram_table(1), 0U);
  EXPECT_EQ(config.engram_table(14), 1U);
  EXPECT_EQ(config.engram_table(2), std::nullopt);
}

TEST(V41Config, FewestLayersAreAModel) {
  for (const char* preset : {"v41-flash", "tiny-v41", "flash-0731", "flash"}) {
    const ModelConfig config = preset_config(preset);
    const std::int64_t fewest = fewest_layers(config);
    EXPECT_NO_THROW(validate(with_layers(config, fewest), preset)) << preset;
    if (fewest > 1) {
      EXPECT_THROW(static_cast<void>(with_layers(config, fewest - 1)), Error) << preset;
    }
  }
}

TEST(V41Config, CutsKeepTheFirstLayersOfBothHalves) {
  EXPECT_EQ(preset_config("v41-flash"), v41_flash());
  const ModelConfig cut = with_layers(v41_flash(), 10);
  EXPECT_EQ(cut.compress_ratios, (std::vector<std::int64_t>{0, 0, 2, 2, 2, 1, 1, 1, 1, 1, 0, 0, 0}));
  const SharedStreams streams{.kv_source_layer_ids = {2, 5},
                              .index_source_layer_ids = {2, 5, 9},
                              .candidate_source_layer_id = 5,
                              .candidate_topk_blocks = 2048,
                              .candidate_block_size = 8};
  EXPECT_EQ(cut.streams, streams);
  EXPECT_EQ(cut.engram->layer_ids, std::vector<std::int64_t>{1});
  EXPECT_EQ(cut.engram->num_embeddings, std::vector<std::int64_t>{384006168});
  EXPECT_EQ(cut.dspark.target_layer_ids, (std::vector<std::int64_t>{7, 8, 9}));
  EXPECT_NO_THROW(validate(cut, "cut"));
  const ModelConfig small = with_engram_vocabulary(cut, 1 << 16);
  EXPECT_LT(small.engram->num_embeddings.front(), 24 * 66'000);
  EXPECT_NO_THROW(validate(small, "small"));
  EXPECT_EQ(with_layers(v41_flash(), 40), v41_flash());
  const ModelConfig tiny = preset_config("tiny-v41");
  for (const std::int64_t layers : {3, 4, 5, 6, 7})
    EXPECT_NO_THROW(validate(with_layers(tiny, layers), "tiny"));
  EXPECT_THROW(with_layers(tiny, 1), Error);
  EXPECT_THROW(with_layers(tiny, 8), Error);
}

TEST(V41Config, WhatIsWrittenIsReadBack) {
  const ModelConfig config = v41_flash();
  EXPECT_EQ(parse_config(config_text(config), "config.json", kStages), config);
  const ModelConfig tiny = preset_config("tiny-v41");
  EXPECT_EQ(parse_config(config_text(tiny), "config.json", kStages), tiny);
}

TEST(V41Config, EveryDamageHasItsSentence) {
  struct Damage {
    const char* field;  // a JSON pointer
    Json value;
    const char* sentence;
  };
  const Damage damages[] = {
      {"/text_config/gate_temp", 2.0,
       "config.json: of \"text_config\" \"gate_temp\" is not known of DeepSeek-V4.1-Flash, and what it "
       "changes "
       "would be a guess"},
      {"/audio_config", Json::object(), "config.json: \"audio_config\" is not known of DeepSeek-V4.1-Flash"},
      {"/model_type", "deepseek_v41_1017",
       "\"model_type\": expected \"deepseek_v41\", found \"deepseek_v41_1017\""},
      {"/architectures", {"DeepseekV41MoeForCausalLM"}, "\"architectures\": expected"},
      {"/text_config/model_type", "deepseek_v42_text", "\"text_config.model_type\": expected"},
      {"/text_config/rope_scaling/attention_factor", 1.3,
       "of \"rope_scaling\" \"attention_factor\" is not known of DeepSeek-V4.1-Flash"},
      {"/quantization_config/kv_cache_scheme", "fp8",
       "of \"quantization_config\" \"kv_cache_scheme\" is not known of DeepSeek-V4.1-Flash"},
      {"/quantization_config/activation_scheme", "static", "expected \"dynamic\", found \"static\""},
      {"/text_config", 3, "\"text_config\": expected an object"},
      {"/text_config/hidden_size", "5120",
       "config.json: \"text_config.hidden_size\": expected a whole number, found \"5120\""},
      {"/quantization_config/weight_block_size", {128, 128}, "expected [32,32], found [128,128]"},
      {"/quantization_config/quant_method", "exl3", "expected \"fp8\", found \"exl3\""},
      {"/text_config/compress_ratios/3", 4, "entry 3: expected 0, 1 or 2, found 4"},
      {"/text_config/compress_ratios/3", 1,
       "entry 3: 1, and the entries that the layer reads, of layer 2, have 2"},
      {"/text_config/compress_ratios/1", 2, "entry 1: 2, before the first of \"kv_source_layer_ids\""},
      {"/text_config/compress_ratios/8", 0, "entry 8: 0, of a layer that \"kv_source_layer_ids\""},
      {"/text_config/compress_ratios/41", 1, "entry 41: a draft head's block sees the window only"},
      {"/text_config/kv_source_layer_ids",
       {8, 2},
       "\"kv_source_layer_ids\": expected ascending layers from 0 to 39"},
      {"/text_config/index_source_layer_ids",
       {2, 14, 20},
       "entry 8: the layer makes entries, which \"index_source_layer_ids\" has to name too"},
      {"/text_config/index_source_layer_ids", {2, 8, 14, 20, 40}, "expected ascending layers from 0 to 39"},
      {"/text_config/candidate_source_layer_id", 14, "\"candidate_source_layer_id\": expected one of"},
      {"/text_config/candidate_source_layer_id", 21, "\"candidate_source_layer_id\": expected one of"},
      {"/text_config/engram_num_embeddings",
       {384006168},
       "\"engram_num_embeddings\": expected a number for each of the 2 layers, found 1"},
      {"/text_config/engram_num_embeddings/1", 384016683,
       "\"engram_num_embeddings\", entry 1: expected 384016682, the sum of the 24 primes that follow from "
       "\"engram_vocab_size\" 16000000, found 384016683"},
      {"/text_config/engram_layer_ids",
       {1, 40},
       "\"engram_layer_ids\": expected ascending layers from 0 to 39"},
      {"/text_config/engram_pad_token_id", 129280, "\"engram_pad_token_id\" 129280"},
      {"/text_config/num_experts_per_tok", 1, "\"num_experts_per_tok\": expected at least 2, found 1"},
      {"/text_config/dspark_target_layer_ids",
       {38, 39, 40},
       "\"dspark_target_layer_ids\": expected ascending"},
  };
  EXPECT_EQ(v41_refusal(test::v41_config()), "");
  for (const Damage& damage : damages) {
    Json config = test::v41_config();
    config[Json::json_pointer(damage.field)] = damage.value;
    const std::string sentence = v41_refusal(config);
    EXPECT_NE(sentence.find(damage.sentence), std::string::npos)
        << damage.field << ": " << (sentence.empty() ? "accepted" : sentence);
  }
  for (const char* field :
       {"kv_source_layer_ids", "engram_vocab_size", "dspark_n_routed_experts", "hc_eps"}) {
    Json config = test::v41_config();
    config["text_config"].erase(field);
    EXPECT_NE(v41_refusal(config).find(fmt::format("\"{}\" is missing", field)), std::string::npos) << field;
  }
}

TEST(V41Layers, AreValuesThatNameTheirSources) {
  const ModelConfig config = v41_flash();
  const CandidateBlocks candidates{.source = 20, .count = 2048, .block_size = 8};
  const LayerAttention full{.window_tokens = 128,
                            .ratio = 2,
                            .entry_form = EntryForm::kLatent,
                            .indexed = true,
                            .top_k = 512,
                            .num_heads = 64,
                            .head_dim = 512,
                            .rope_dim = 64,
                            .index_heads = 32,
                            .index_dim = 128,
                            .window_row = GroupedRow{.codes = GroupedCodes::kFp8, .width = 512},
                            .entry_row = GroupedRow{.codes = GroupedCodes::kFp4, .width = 512},
                            .rope = RopeKind::kScaled,
                            .norms_queries = false};
  EXPECT_EQ(config.attention(2), full);
  EXPECT_EQ(config.attention(8), full);
  LayerAttention reused = full;
  reused.key_source = reused.index_source = 2;
  EXPECT_EQ(config.attention(3), reused);
  EXPECT_EQ(config.attention(7), reused);
  LayerAttention source = full;
  source.ratio = 1;
  source.candidates = candidates;
  EXPECT_EQ(config.attention(20), source);
  LayerAttention reindexed = source;
  reindexed.key_source = 20;
  EXPECT_EQ(config.attention(24), reindexed);
  LayerAttention last = reindexed;
  last.index_source = 36;
  last.candidates = std::nullopt;
  EXPECT_EQ(config.attention(39), last);
  EXPECT_EQ(config.layer_kind(0), LayerKind::kSlidingWindow);
  EXPECT_EQ(config.layer_kind(40), LayerKind::kSlidingWindow);
  EXPECT_EQ(config.num_layers_of(LayerKind::kCsa), 4);
  EXPECT_EQ(config.num_layers_of(LayerKind::kReindexed), 4);
  EXPECT_EQ(config.num_layers_of(LayerKind::kReused), 30);
  EXPECT_EQ(config.num_layers_of(LayerKind::kHca), 0);
  EXPECT_EQ(why_not_runnable(full), "");
  EXPECT_EQ(why_not_runnable(source), "");
  LayerAttention coarse = full;
  coarse.ratio = 4;
  EXPECT_EQ(why_not_runnable(coarse), "latents of 4 positions; expected of 1 or 2");
  EXPECT_EQ(last.entries_of(39), 20);
  EXPECT_EQ(source.entries_of(20), 20);
  EXPECT_TRUE(full.makes_entries() && full.compresses() && full.selects() && !full.pools_keys());
  EXPECT_TRUE(source.makes_entries() && !source.compresses());
  EXPECT_TRUE(!reindexed.makes_entries() && reindexed.selects() && !last.selects());
}

TEST(V41Layers, ARankCountsSourcesAsItCountsLayers) {
  const ModelConfig config = v41_flash();
  const RankConfig decoder(config, {.begin = 20, .end = 40, .first = false, .last = true}, {});
  EXPECT_EQ(decoder.attention(0).key_source, std::nullopt);
  EXPECT_EQ(decoder.attention(0).candidates->source, 0);
  EXPECT_EQ(decoder.attention(19).key_source, 0);
  EXPECT_EQ(decoder.attention(19).index_source, 16);
  EXPECT_EQ(decoder.attention(20).key_source, std::nullopt);  // the draft head's first block
}

TEST(V41Layers, StagesAreCutWhereEntriesBegin) {
  const ModelConfig config = v41_flash();
  const auto refusal = [&](std::vector<std::int64_t> layers) -> std::string {
    ParallelPlan plan{.num_devices = 2, .pp = 2, .stage_layers = std::move(layers)};
    try {
      check_runnable(resolved(plan, config), config);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refusal({20, 20}), "");
  EXPECT_EQ(refusal({14, 26}), "");
  EXPECT_NE(refusal({21, 19}).find(
                "stage 1 begins with layer 21, behind which layers read what layer 20 of a stage "
                "before makes; stages begin with layers 0, 1, 2, 8, 14, 20, so ‹pipeline "
                "parallelism› 6 at most"),
            std::string::npos)
      << refusal({21, 19});
}

TEST(V41Layers, StagesAreAsEvenAsTheirCutsAllow) {
  const ModelConfig config = v41_flash();
  const auto begins = [&](std::int64_t pp) {
    std::vector<std::int64_t> all;
    for (std::int64_t index = 0; index < pp; ++index) all.push_back(even_stage(config, pp, index).begin);
    EXPECT_EQ(even_stage(config, pp, pp - 1).end, 40);
    return all;
  };
  EXPECT_EQ(begins(1), (std::vector<std::int64_t>{0}));
  EXPECT_EQ(begins(2), (std::vector<std::int64_t>{0, 20}));
  EXPECT_EQ(begins(3), (std::vector<std::int64_t>{0, 8, 20}));
  EXPECT_EQ(begins(4), (std::vector<std::int64_t>{0, 8, 14, 20}));
  EXPECT_EQ(begins(6), (std::vector<std::int64_t>{0, 1, 2, 8, 14, 20}));
  // Where any layer may begin a stage, the first ones have the remainder.
  const ModelConfig flash = preset_config("flash");
  for (const std::int64_t pp : {1, 2, 5, 8, 43}) {
    for (std::int64_t index = 0; index < pp; ++index) {
      EXPECT_EQ(even_stage(flash, pp, index).begin, index * (43 / pp) + std::min(index, 43 % pp));
    }
  }
}

TEST(V41Layers, StagesOfDevicesThatAreNotAlikeAreCutThereToo) {
  const ModelConfig config = v41_flash();
  const std::vector<std::int64_t> allowed = stage_begins(config);
  for (const double speed : {1.0, 1.5, 3.0}) {
    const std::vector<StageDevice> devices{{std::int64_t{1} << 40, speed * 1e12, 0},
                                           {std::int64_t{1} << 40, 1e12, 0}};
    const auto layers = balanced_stage_layers(config, {}, devices);
    ASSERT_TRUE(layers);
    EXPECT_TRUE(std::ranges::binary_search(allowed, layers->front())) << layers->front();
  }
}

TEST(V41Layers, EveryKindOfPlanIsThere) {
  const ModelConfig config = v41_flash();
  const auto broken = [&](const ParallelPlan& plan) -> std::string {
    const std::vector<std::string> found = violations(resolved(plan, config), config);
    return found.empty() ? "" : found.front();
  };
  for (const std::int64_t ranks : {1, 2, 4, 8}) {
    EXPECT_EQ(broken({.num_devices = ranks}), "") << ranks;
    EXPECT_EQ(broken({.num_devices = ranks, .tp = ranks}), "") << ranks;
    EXPECT_EQ(broken({.num_devices = ranks, .ep = ranks}), "") << ranks;
    EXPECT_EQ(broken({.num_devices = ranks, .cp = ranks}), "") << ranks;
    EXPECT_EQ(broken({.num_devices = ranks, .dp = ranks, .redundant_experts = 2 * ranks}), "") << ranks;
    const std::int64_t pp = std::min<std::int64_t>(ranks, 4);
    EXPECT_EQ(broken({.num_devices = ranks, .pp = pp}), "") << ranks;
  }
  EXPECT_NE(broken({.num_devices = 8, .pp = 8}).find("‹pipeline parallelism› 6 at most"), std::string::npos)
      << broken({.num_devices = 8, .pp = 8});
  EXPECT_NE(broken({.dp = 2, .dual_batch_overlap = true}).find("‹micro-batch overlap›"), std::string::npos);
  EXPECT_NE(broken({.dp = 3}).find("128 experts of the draft head's blocks cannot be shared out evenly, "
                                   "where layers have 384; ‹expert parallelism› 2 would do"),
            std::string::npos)
      << broken({.dp = 3});
}

/// 384 experts of layers and 128 of the draft head's blocks over four ranks.
TEST(V41Layers, ExpertsLieByTheNumberOfTheirBlock) {
  const ModelConfig config = v41_flash();
  ParallelPlan plan = resolved({.dp = 4}, config);
  const RankLayout last(config, plan, Stage{.end = 40}, 0, 3);
  EXPECT_EQ(last.experts(384, nullptr).experts_per_rank(), 96);
  EXPECT_EQ(last.experts(384, nullptr).logical(0), 288);
  EXPECT_EQ(last.experts(128, nullptr).experts_per_rank(), 32);
  EXPECT_EQ(last.experts(128, nullptr).logical(0), 96);
  EXPECT_EQ(last.placed_map(128), nullptr);
  const RankConfig rank = rank_config(config, plan, Stage{.end = 40});
  EXPECT_EQ(rank.num_experts_of(0), 96);
  EXPECT_EQ(rank.num_experts_of(40), 32);

  plan = resolved({.dp = 4, .redundant_experts = 8, .expert_placement = ExpertOrder::kRoundRobin}, config);
  const RankLayout first(config, plan, Stage{.end = 40}, 0, 0);
  const auto layers = first.placed_map(384), drafts = first.placed_map(128);
  EXPECT_EQ(first.experts(384, layers.get()).experts_per_rank(), 98);
  EXPECT_EQ(first.experts(128, drafts.get()).experts_per_rank(), 34);
  EXPECT_EQ(first.experts(128, drafts.get()).logical(31), 124);
  EXPECT_EQ(rank_config(config, plan, Stage{.end = 40}).num_experts_of(42), 34);
}

TEST(V41Layers, TheCacheTakes890BytesAToken) {
  const CacheGeometry geometry = cache_geometry(v41_flash(), Precision::kReleased);
  EXPECT_EQ(geometry.window_row_bytes(), 528);
  EXPECT_EQ(geometry.entry_row_bytes(), 288);
  EXPECT_EQ(geometry.index_key.row_bytes(), 68);
  EXPECT_EQ(geometry.bytes_per_token(), 890);
  EXPECT_EQ(geometry.page_bytes(), 3 * (128 * 288 + 128 * 68) + 256 * 288 + 256 * 68);
  EXPECT_EQ(geometry.window_page_bytes(), 43 * 256 * 528);
  // A pending token of ratio 2: value and gate of 512 floats in two rows. Index keys are the latents'.
  EXPECT_EQ(geometry.state_slot_bytes(), 3 * 2 * 2 * 512 * 4);
  const CacheGeometry exact = cache_geometry(v41_flash(), Precision::kExact);
  EXPECT_EQ(exact.entry_row_bytes(), 2048);
}

class V41Files : public testing::Test {
 protected:
  [[nodiscard]] std::filesystem::path written(const std::vector<TensorHeader>& tensors,
                                              const Json& config = test::v41_config()) {
    const std::filesystem::path path = folder_ / fmt::format("files-{}", ++count_);
    test::write_header_only(path, tensors, config.dump());
    return path;
  }
  static std::vector<std::string> mismatches_of(const std::filesystem::path& folder) {
    const ModelFiles files = read_model_files(folder);
    const ModelConfig config = parse_config(files.config_text, files.config_label, stored_drafts(files.kind));
    return mismatches(config, files.checkpoint);
  }

  test::TemporaryFolder folder_;
  int count_ = 0;
};

TEST_F(V41Files, EveryPublishedTensorIsInTheTableOrLeftUnreadByName) {
  const auto folder = written(test::v41_headers());
  EXPECT_EQ(mismatches_of(folder), std::vector<std::string>{});
  const ModelFiles files = read_model_files(folder);
  const CheckpointKind& kind = files.kind;
  EXPECT_EQ(std::ssize(files.checkpoint.tensors()), 96'085);
  std::int64_t bytes = 0;
  for (const TensorInfo& tensor : files.checkpoint.tensors()) bytes += tensor.size_bytes();
  EXPECT_EQ(bytes, 510'286'023'000);
  EXPECT_EQ(kind.release.value, Release::kV41);
  EXPECT_EQ(kind.published.value, "V4.1-Flash or V4.1-Flash-1017");
  EXPECT_EQ(kind.draft_head.value, DraftKind::kDspark);
  EXPECT_EQ(kind.draft_blocks.value, 3);
  EXPECT_EQ(kind.dense.text(), "FP8, E8M0 scales of 32 x 32");
  EXPECT_EQ(kind.experts.text(), "MXFP4, E8M0 scales");
  EXPECT_EQ(kind.contradictions, std::vector<std::string>{});
  EXPECT_EQ(left_out_text(kind.left_out),
            "vision (vision.*, aligner.*, image_*, gate.bias_vl), 309 tensors, 970.6 MB");
  EXPECT_EQ(kind.why_not, "");
}

TEST_F(V41Files, WhatAnotherReleaseMayHaveIsNamed) {
  std::vector<TensorHeader> tensors = test::v41_headers();
  const auto tensor = [&](std::string_view name) -> TensorHeader& {
    return *std::ranges::find(tensors, name, &TensorHeader::name);
  };
  tensors.push_back({"layers.5.engram.q_weight", DType::kBF16, {4, 5120}});
  tensor("layers.20.attn.compressor.wkv.weight").name = "layers.21.attn.compressor.wkv.weight";
  tensor("layers.1.engram.embed.scale").shape = {12'000'193, 8};
  tensors.push_back({"hc_head_fn", DType::kF32, {4, 4 * 5120}});
  const std::vector<std::string> found = mismatches_of(written(tensors));
  const auto is_named = [&](std::string_view sentence) {
    return std::ranges::any_of(found,
                               [&](const std::string& line) { return line.find(sentence) != line.npos; });
  };
  EXPECT_EQ(found.size(), 5U) << fmt::format("{}", fmt::join(found, "\n"));
  for (const char* sentence :
       {"tensor \"layers.5.engram.q_weight\" in ",
        "tensor \"layers.20.attn.compressor.wkv.weight\": missing, config wants BF16 [512, 5120]",
        "tensor \"layers.21.attn.compressor.wkv.weight\" in ",
        "F8_E8M0 [12000193, 8], config wants F8_E8M0 [384006168, 8]", "tensor \"hc_head_fn\" in "})
    EXPECT_TRUE(is_named(sentence)) << sentence << "\n" << fmt::format("{}", fmt::join(found, "\n"));
}

TEST_F(V41Files, ARepackWithFp8ExpertsIsOne) {
  std::vector<TensorHeader> tensors = test::v41_headers();
  for (TensorHeader& tensor : tensors) {
    if (!tensor.name.starts_with("layers.") || tensor.name.find(".ffn.experts.") == std::string::npos)
      continue;
    if (tensor.name.ends_with(".weight")) {
      tensor.dtype = DType::kF8E4M3;
      tensor.shape[1] *= 2;
    } else {
      tensor.shape[0] /= 32;
    }
  }
  Json config = test::v41_config();
  config["quantization_config"].erase("expert_dtype");
  const auto folder = written(tensors, config);
  EXPECT_EQ(mismatches_of(folder), std::vector<std::string>{});
  const CheckpointKind kind = read_model_files(folder).kind;
  EXPECT_EQ(kind.published.value, "V4.1-Flash or V4.1-Flash-1017 with FP8 experts (a repack)");
  EXPECT_EQ(kind.experts.text(), "FP8, E8M0 scales of 32 x 32");
  EXPECT_EQ(kind.draft_experts.text(), "MXFP4, E8M0 scales");
}

}  // namespace
}  // namespace baleen
