#include "model/presets.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/nearest_name.h"
#include "model/engram_tables.h"
#include "model/model_family.h"

namespace baleen {
namespace {

/// `first`, then 4 and 128 in turn up to `num_layers`, then 0 for the draft head's block.
std::vector<std::int64_t> alternating_ratios(std::int64_t first, std::int64_t num_layers) {
  std::vector<std::int64_t> ratios{first, first};
  while (static_cast<std::int64_t>(ratios.size()) < num_layers)
    ratios.push_back(ratios.size() % 2 == 0 ? 4 : 128);
  ratios.push_back(0);
  return ratios;
}

/// Every layer kind, one hash layer, an index top-k below the number of entries of a short prompt.
ModelConfig tiny_flash() {
  ModelConfig c;
  c.vocab_size = 512;
  c.hidden_size = 256;
  c.num_hidden_layers = 5;
  c.compress_ratios = {0, 4, 128, 4, 128, 0};
  c.num_attention_heads = 4;
  c.head_dim = 128;
  c.q_lora_rank = 128;
  c.o_groups = 2;
  c.o_lora_rank = 128;
  c.index_n_heads = 16;
  c.index_topk = 16;
  c.n_routed_experts = 8;
  c.num_experts_per_tok = 2;
  c.moe_intermediate_size = 128;
  c.num_hash_layers = 1;
  c.routed_scaling_factor = 1.5;
  return c;
}

/// The released head geometry (448 + 64), hence 584-byte cache rows, in a small model.
ModelConfig tiny_real_heads() {
  ModelConfig c = tiny_flash();
  c.num_hidden_layers = 4;
  c.compress_ratios = {128, 4, 4, 0, 0};
  c.num_attention_heads = 8;
  c.head_dim = 512;
  c.q_lora_rank = 256;
  c.o_groups = 4;
  c.index_topk = 32;
  c.n_routed_experts = 12;
  c.num_experts_per_tok = 6;
  c.num_hash_layers = 2;
  c.routed_scaling_factor = 2.5;
  return c;
}

/// Of each table, as its primes say.
void count_rows(EngramConfig& engram) {
  engram.num_embeddings.clear();
  for (const EngramTable& table : engram_tables(engram)) engram.num_embeddings.push_back(table.num_rows());
}

/// DeepSeek-V4.1 in small: a window layer, entries of two positions that two layers read, entries of one
/// position that four layers read, among them the layer that chooses candidates and one that selects within
/// them. Its vocabulary is that of the bundled stories' tokenizer, which n-grams are hashed by.
ModelConfig tiny_v41() {
  ModelConfig c = tiny_flash();
  c.family = &kDeepSeekV41;
  c.dense_format = c.fp8_format();
  c.vocab_size = 4096;
  c.num_hidden_layers = 7;
  c.compress_ratios = {0, 2, 2, 1, 1, 1, 1, 0, 0, 0};
  c.num_experts_per_tok = 3;
  c.num_hash_layers = 0;
  c.rms_norm_eps = 1e-20;
  c.streams = {.kv_source_layer_ids = {1, 3},
               .index_source_layer_ids = {1, 3, 5},
               .candidate_source_layer_id = 3,
               .candidate_topk_blocks = 4,
               .candidate_block_size = 8};
  c.engram = {.layer_ids = {1, 3},
              .num_embeddings = {},
              .max_ngram_size = 4,
              .vocab_size = 97,
              .n_heads = 2,
              .head_dim = 64,
              .pad_token_id = 2,
              .compressed_vocab_size = 3372};
  count_rows(*c.engram);
  c.draft_kind = DraftKind::kDspark;
  c.num_nextn_predict_layers = 3;
  c.dspark = {.block_size = 5,
              .noise_token_id = 4095,
              .target_layer_ids = {4, 5, 6},
              .markov_rank = 128,
              .n_routed_experts = 4,
              .num_experts_per_tok = 2};
  return c;
}

/// 1,231,406,528 bytes in the released formats: two sliding-window, two CSA and two HCA layers and a draft
/// block, of 12 experts each; large enough to be bound by memory, small enough for a laptop.
ModelConfig bench_1b() {
  ModelConfig c;
  c.vocab_size = 32768;
  c.hidden_size = 2048;
  c.num_hidden_layers = 6;
  c.compress_ratios = alternating_ratios(0, 6);
  c.num_attention_heads = 32;
  c.q_lora_rank = 1024;
  c.o_groups = 8;
  c.o_lora_rank = 512;
  c.index_n_heads = 16;
  c.index_topk = 512;
  c.n_routed_experts = 12;
  c.num_experts_per_tok = 4;
  c.moe_intermediate_size = 2048;
  c.num_hash_layers = 2;
  c.routed_scaling_factor = 1.5;
  return c;
}

ModelConfig flash() {
  ModelConfig c;
  c.vocab_size = 129280;
  c.hidden_size = 4096;
  c.num_hidden_layers = 43;
  c.compress_ratios = alternating_ratios(0, 43);
  c.num_attention_heads = 64;
  c.q_lora_rank = 1024;
  c.o_groups = 8;
  c.o_lora_rank = 1024;
  c.index_n_heads = 64;
  c.index_topk = 512;
  c.n_routed_experts = 256;
  c.num_experts_per_tok = 6;
  c.moe_intermediate_size = 2048;
  c.num_hash_layers = 3;
  c.routed_scaling_factor = 1.5;
  return c;
}

ModelConfig pro() {
  ModelConfig c = flash();
  c.hidden_size = 7168;
  c.num_hidden_layers = 61;
  c.compress_ratios = alternating_ratios(128, 61);
  c.num_attention_heads = 128;
  c.q_lora_rank = 1536;
  c.o_groups = 16;
  c.index_topk = 1024;
  c.n_routed_experts = 384;
  c.moe_intermediate_size = 3072;
  c.routed_scaling_factor = 2.5;
  return c;
}

/// The same layers before a DSpark head, as later releases have it: three stages that read the last three
/// layers and draft five tokens.
ModelConfig with_dspark(ModelConfig c, std::int64_t markov_rank, std::int64_t noise_token_id) {
  constexpr std::int64_t kStages = 3;
  c.draft_kind = DraftKind::kDspark;
  c.num_nextn_predict_layers = kStages;
  c.compress_ratios.resize(static_cast<std::size_t>(c.num_hidden_layers));
  c.compress_ratios.resize(static_cast<std::size_t>(c.num_blocks()), 0);
  c.dspark = {
      .block_size = 5, .noise_token_id = noise_token_id, .target_layer_ids = {}, .markov_rank = markov_rank};
  for (std::int64_t layer = c.num_hidden_layers - kStages; layer < c.num_hidden_layers; ++layer)
    c.dspark.target_layer_ids.push_back(layer);
  return c;
}

ModelConfig v41_flash() {
  ModelConfig c = flash();
  c.family = &kDeepSeekV41;
  c.dense_format = c.fp8_format();
  c.hidden_size = 5120;
  c.num_hidden_layers = 40;
  c.compress_ratios = {0, 0};
  c.compress_ratios.resize(20, 2);
  c.compress_ratios.resize(40, 1);
  c.compress_ratios.resize(43, 0);
  c.q_lora_rank = 1280;
  c.index_n_heads = 32;
  c.n_routed_experts = 384;
  c.moe_intermediate_size = 2304;
  c.num_hash_layers = 0;
  c.rms_norm_eps = 1e-20;
  c.streams = {.kv_source_layer_ids = {2, 8, 14, 20},
               .index_source_layer_ids = {2, 8, 14, 20, 24, 28, 32, 36},
               .candidate_source_layer_id = 20,
               .candidate_topk_blocks = 2048,
               .candidate_block_size = 8};
  c.engram = {.layer_ids = {1, 14},
              .num_embeddings = {},
              .max_ngram_size = 4,
              .vocab_size = 16'000'000,
              .n_heads = 8,
              .head_dim = 256,
              .pad_token_id = 2,
              .compressed_vocab_size = 99092,
              .image_token_id = 129264};
  count_rows(*c.engram);
  c.draft_kind = DraftKind::kDspark;
  c.num_nextn_predict_layers = 3;
  c.dspark = {.block_size = 5,
              .noise_token_id = 128799,
              .target_layer_ids = {37, 38, 39},
              .markov_rank = 256,
              .n_routed_experts = 128,
              .num_experts_per_tok = 3};
  return c;
}

ModelConfig tiny_dspark() { return with_dspark(tiny_flash(), 128, 511); }
ModelConfig flash_0731() { return with_dspark(flash(), 256, 128799); }
ModelConfig pro_0813() { return with_dspark(pro(), 512, 128799); }

constexpr std::array<Preset, 10> kPresets{{
    {"tiny-flash", "5 layers of every kind, width 256, heads of 128", tiny_flash},
    {"tiny-real-heads", "4 layers, width 256, the released heads of 512", tiny_real_heads},
    {"tiny-dspark", "tiny-flash with a DSpark head", tiny_dspark},
    {"tiny-v41", "DeepSeek-V4.1 in 7 layers, for the tokenizer of models/stories", tiny_v41},
    {"bench-1b", "about 1.2 GB of weights, every layer kind", bench_1b},
    {"flash", "DeepSeek-V4-Flash: 43 layers, 256 experts, 160 GB", flash},
    {"pro", "DeepSeek-V4-Pro: 61 layers, 384 experts, 865 GB", pro},
    {"flash-0731", "DeepSeek-V4-Flash-0731: Flash with a DSpark head, 167 GB", flash_0731},
    {"pro-0813", "DeepSeek-V4-Pro-0813: Pro with a DSpark head, 893 GB", pro_0813},
    {"v41-flash", "DeepSeek-V4.1-Flash: 40 layers, 384 experts, tables of n-grams, 510 GB", v41_flash},
}};

/// Numbers of layers before a cut, which keeps `first` of those before layer `second` and the others from
/// there on, to those behind it.
struct LayerCut {
  std::int64_t first, second, num_layers;

  [[nodiscard]] std::vector<std::int64_t> of(const std::vector<std::int64_t>& layers) const {
    std::vector<std::int64_t> kept;
    for (const std::int64_t layer : layers) {
      if (layer < first) kept.push_back(layer);
      if (layer >= second && layer - second + first < num_layers) kept.push_back(layer - second + first);
    }
    return kept;
  }
};

/// Of both halves of a V4.1, the one that makes the prompt's entries and the one that reads the last of them,
/// their first layers.
void cut_halves(ModelConfig& config, std::int64_t num_layers) {
  SharedStreams& streams = *config.streams;
  const std::int64_t second = streams.candidate_source_layer_id, all = config.num_hidden_layers;
  const LayerCut cut{
      .first = std::clamp((num_layers + 1) / 2, num_layers - (all - second), std::min(second, num_layers)),
      .second = second,
      .num_layers = num_layers};
  streams.kv_source_layer_ids = cut.of(streams.kv_source_layer_ids);
  streams.index_source_layer_ids = cut.of(streams.index_source_layer_ids);
  const std::vector<std::int64_t> candidates = cut.of({second}), tables = cut.of(config.engram->layer_ids);
  if (candidates.empty() || tables.empty()) {
    fail("cannot keep {} layers: layer {} has the first table of n-grams, layer {} chooses the candidates",
         num_layers, config.engram->layer_ids.front(), second);
  }
  streams.candidate_source_layer_id = candidates.front();
  config.engram->layer_ids = tables;
  count_rows(*config.engram);
  auto& ratios = config.compress_ratios;
  ratios.erase(ratios.begin() + second + num_layers - cut.first, ratios.begin() + all);
  ratios.erase(ratios.begin() + cut.first, ratios.begin() + second);
}

}  // namespace

std::span<const Preset> presets() { return kPresets; }

ModelConfig preset_config(std::string_view name) {
  std::vector<std::string> names;
  for (const Preset& preset : kPresets) {
    if (preset.name == name) return preset.config();
    names.emplace_back(preset.name);
  }
  fail("no preset \"{}\"; there are {}{}", name, fmt::join(names, ", "), did_you_mean(name, names));
}

ModelConfig with_layers(ModelConfig config, std::int64_t num_layers) {
  if (num_layers < 1 || num_layers > config.num_hidden_layers) {
    fail("cannot keep {} layers: the model has {}", num_layers, config.num_hidden_layers);
  }
  if (config.streams) {
    cut_halves(config, num_layers);
  } else {
    auto& ratios = config.compress_ratios;
    ratios.erase(ratios.begin() + num_layers, ratios.begin() + config.num_hidden_layers);
  }
  // As far from the end as they were.
  for (std::int64_t& layer : config.dspark.target_layer_ids) layer -= config.num_hidden_layers - num_layers;
  if (!config.dspark.target_layer_ids.empty() && config.dspark.target_layer_ids.front() < 0) {
    fail("cannot keep {} layers: the draft head reads the last {}", num_layers,
         num_layers - config.dspark.target_layer_ids.front());
  }
  config.num_hidden_layers = num_layers;
  config.num_hash_layers = std::min(config.num_hash_layers, num_layers);
  return config;
}

std::int64_t fewest_layers(const ModelConfig& config) {
  std::int64_t fewest = 1;
  if (const auto& targets = config.dspark.target_layer_ids; !targets.empty())
    fewest = std::max(fewest, config.num_hidden_layers - targets.front());
  if (config.streams) fewest = std::max(fewest, config.streams->kv_source_layer_ids.front() + 1);
  if (config.engram) fewest = std::max(fewest, config.engram->layer_ids.front() + 1);
  return fewest;
}

ModelConfig with_experts(ModelConfig config, std::int64_t num_experts) {
  if (num_experts < 1 || num_experts > config.n_routed_experts) {
    fail("cannot keep {} experts: the model has {}", num_experts, config.n_routed_experts);
  }
  config.n_routed_experts = num_experts;
  config.num_experts_per_tok = std::min(config.num_experts_per_tok, num_experts);
  return config;
}

ModelConfig with_engram_vocabulary(ModelConfig config, std::int64_t vocab_size) {
  config.engram->vocab_size = vocab_size;
  count_rows(*config.engram);
  return config;
}

}  // namespace baleen
