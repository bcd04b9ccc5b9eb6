/// DeepSeek-V4.1-Flash as it is published: its config.json and the tensors of its files, by rules that are
/// not the table's. (source: releases specification 1.2, 1.4, 9.A)
#pragma once

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"

namespace baleen::test {

[[nodiscard]] inline nlohmann::ordered_json v41_config() {
  nlohmann::ordered_json config = nlohmann::ordered_json::parse(R"({
    "architectures": ["DeepseekV41ForCausalLM"], "model_type": "deepseek_v41", "dtype": "bfloat16",
    "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 2, "image_token_id": 129264,
    "quantization_config": {"quant_method": "fp8", "activation_scheme": "dynamic", "scale_fmt": "ue8m0",
                            "weight_block_size": [32, 32], "expert_dtype": "fp4"},
    "text_config": {
      "model_type": "deepseek_v41_text", "attention_bias": false, "attention_dropout": 0.0,
      "vocab_size": 129280, "hidden_size": 5120, "moe_intermediate_size": 2304, "num_hidden_layers": 40,
      "num_attention_heads": 64, "num_key_value_heads": 1, "head_dim": 512, "qk_rope_head_dim": 64,
      "q_lora_rank": 1280, "o_lora_rank": 1024, "o_groups": 8, "hidden_act": "silu", "swiglu_limit": 10.0,
      "rms_norm_eps": 1e-20, "max_position_embeddings": 1048576, "rope_theta": 10000,
      "rope_scaling": {"rope_type": "yarn", "factor": 16, "beta_fast": 32, "beta_slow": 1,
                       "original_max_position_embeddings": 65536},
      "n_routed_experts": 384, "n_shared_experts": 1, "num_experts_per_tok": 6,
      "scoring_func": "sqrtsoftplus", "topk_method": "noaux_tc", "norm_topk_prob": true,
      "routed_scaling_factor": 1.5, "sliding_window": 128, "compress_rope_theta": 160000,
      "kv_source_layer_ids": [2, 8, 14, 20], "index_source_layer_ids": [2, 8, 14, 20, 24, 28, 32, 36],
      "index_n_heads": 32, "index_head_dim": 128, "index_topk": 512, "candidate_source_layer_id": 20,
      "candidate_topk_blocks": 2048, "candidate_block_size": 8, "hc_mult": 4, "hc_sinkhorn_iters": 20,
      "hc_eps": 1e-6, "engram_layer_ids": [1, 14], "engram_num_embeddings": [384006168, 384016682],
      "engram_max_ngram_size": 4, "engram_vocab_size": 16000000, "engram_n_heads": 8,
      "engram_head_dim": 256, "engram_pad_token_id": 2, "engram_compressed_vocab_size": 99092,
      "num_nextn_predict_layers": 3, "dspark_block_size": 5, "dspark_noise_token_id": 128799,
      "dspark_target_layer_ids": [37, 38, 39], "dspark_markov_rank": 256,
      "dspark_n_routed_experts": 128, "dspark_num_experts_per_tok": 3, "initializer_range": 0.02,
      "tie_word_embeddings": false, "use_cache": true},
    "vision_config": {"model_type": "deepseek_v41_vision", "num_hidden_layers": 32, "hidden_size": 1024,
                      "num_attention_heads": 16, "intermediate_size": 2816, "patch_size": 14,
                      "rope_theta": 10000, "downsample_ratio": 3, "max_image_tokens": 1024,
                      "max_wh_ratio": null, "min_pixels": 295936}
  })");
  nlohmann::ordered_json& ratios = config["text_config"]["compress_ratios"];
  ratios = {0, 0};
  ratios.insert(ratios.end(), 18, 2);
  ratios.insert(ratios.end(), 20, 1);
  ratios.insert(ratios.end(), 3, 0);
  return config;
}

/// 96,085 of them.
[[nodiscard]] inline std::vector<TensorHeader> v41_headers() {
  constexpr std::int64_t kWidth = 5120, kInner = 2304, kVocabulary = 129280, kHead = 512;
  std::vector<TensorHeader> tensors;
  const auto add = [&](std::string name, DType dtype, std::vector<std::int64_t> shape) {
    tensors.push_back({std::move(name), dtype, std::move(shape)});
  };
  const auto bf16 = [&](std::string name, std::vector<std::int64_t> shape) {
    add(std::move(name), DType::kBF16, std::move(shape));
  };
  const auto fp8 = [&](const std::string& stem, std::int64_t out, std::int64_t in) {
    add(stem + ".weight", DType::kF8E4M3, {out, in});
    add(stem + ".scale", DType::kF8E8M0, {(out + 31) / 32, (in + 31) / 32});
  };
  const auto is_one_of = [](std::int64_t layer, std::initializer_list<std::int64_t> layers) {
    return std::find(layers.begin(), layers.end(), layer) != layers.end();
  };
  const auto block = [&](const std::string& prefix, std::int64_t experts) {
    for (const char* half : {"attn", "ffn"}) {
      bf16(fmt::format("{}{}_norm.weight", prefix, half), {kWidth});
      add(fmt::format("{}hc_{}_fn", prefix, half), DType::kF32, {24, 4 * kWidth});
      add(fmt::format("{}hc_{}_base", prefix, half), DType::kF32, {24});
      add(fmt::format("{}hc_{}_scale", prefix, half), DType::kF32, {3});
    }
    add(prefix + "attn.attn_sink", DType::kF32, {64});
    fp8(prefix + "attn.wq_a", 1280, kWidth);
    bf16(prefix + "attn.q_norm.weight", {1280});
    fp8(prefix + "attn.wq_b", 64 * kHead, 1280);
    fp8(prefix + "attn.wkv", kHead, kWidth);
    bf16(prefix + "attn.kv_norm.weight", {kHead});
    fp8(prefix + "attn.wo_a", 8192, 4096);
    fp8(prefix + "attn.wo_b", kWidth, 8192);
    bf16(prefix + "ffn.gate.weight", {experts, kWidth});
    add(prefix + "ffn.gate.bias", DType::kF32, {experts});
    add(prefix + "ffn.gate.bias_vl", DType::kF32, {experts});
    for (const char* matrix : {"w1", "w2", "w3"}) {
      const bool down = matrix[1] == '2';
      const std::int64_t out = down ? kWidth : kInner, in = down ? kInner : kWidth;
      fp8(fmt::format("{}ffn.shared_experts.{}", prefix, matrix), out, in);
      for (std::int64_t expert = 0; expert < experts; ++expert) {
        const std::string stem = fmt::format("{}ffn.experts.{}.{}", prefix, expert, matrix);
        add(stem + ".weight", DType::kI8, {out, in / 2});
        add(stem + ".scale", DType::kF8E8M0, {out, in / 32});
      }
    }
  };
  bf16("embed.weight", {kVocabulary, kWidth});
  for (std::int64_t layer = 0; layer < 40; ++layer) {
    const std::string prefix = fmt::format("layers.{}.", layer), attn = prefix + "attn.";
    block(prefix, 384);
    if (is_one_of(layer, {2, 8, 14, 20})) {
      bf16(attn + "compressor.wkv.weight", {kHead, kWidth});
      bf16(attn + "compressor.norm.weight", {kHead});
      if (layer != 20) bf16(attn + "compressor.wgate.weight", {kHead, kWidth});
      bf16(attn + "indexer.wk.weight", {128, kHead});
      bf16(attn + "indexer.k_norm.weight", {128});
    }
    if (is_one_of(layer, {2, 8, 14, 20, 24, 28, 32, 36})) {
      fp8(attn + "indexer.wq_b", 4096, 1280);
      bf16(attn + "indexer.weights_proj.weight", {32, kWidth});
    }
    if (is_one_of(layer, {1, 14})) {
      const std::int64_t rows = layer == 1 ? 384006168 : 384016682;
      add(prefix + "engram.embed.weight", DType::kF8E4M3, {rows, 256});
      add(prefix + "engram.embed.scale", DType::kF8E8M0, {rows, 8});
      bf16(prefix + "engram.q_weight", {4, kWidth});
      bf16(prefix + "engram.k_weight", {4, kWidth});
      fp8(prefix + "engram.wkv", 5 * kWidth, 6144);
    }
  }
  bf16("norm.weight", {kWidth});
  bf16("head.weight", {kVocabulary, kWidth});
  for (int stage = 0; stage < 3; ++stage) block(fmt::format("mtp.{}.", stage), 128);
  fp8("mtp.0.main_proj", kWidth, 3 * kWidth);
  bf16("mtp.0.main_norm.weight", {kWidth});
  bf16("mtp.2.norm.weight", {kWidth});
  for (const char* name : {"embed", "head"})
    bf16(fmt::format("mtp.2.markov_head.{}.weight", name), {kVocabulary, 256});
  bf16("mtp.2.confidence_head.proj.weight", {1, kWidth + 256});
  for (const char* name : {"image_end", "image_newline", "image_start"}) bf16(name, {kWidth});
  for (const auto& [name, in] : {std::pair("w1", std::int64_t{9216}), {"w2", kWidth}}) {
    bf16(fmt::format("aligner.{}.weight", name), {kWidth, in});
    bf16(fmt::format("aligner.{}.bias", name), {kWidth});
  }
  bf16("vision.patch_embed.proj.weight", {1024, 588});
  bf16("vision.patch_embed.proj.bias", {1024});
  bf16("vision.norm.weight", {1024});
  for (int layer = 0; layer < 32; ++layer) {
    const std::string prefix = fmt::format("vision.blocks.{}.", layer);
    for (const auto& [name, out] : {std::pair("wqkv", std::int64_t{3072}), {"wo", std::int64_t{1024}}}) {
      bf16(fmt::format("{}attn.{}.weight", prefix, name), {out, 1024});
      bf16(fmt::format("{}attn.{}.bias", prefix, name), {out});
    }
    bf16(prefix + "mlp.w1.weight", {5632, 1024});
    bf16(prefix + "mlp.w2.weight", {1024, 2816});
    bf16(prefix + "norm1.weight", {1024});
    bf16(prefix + "norm2.weight", {1024});
  }
  return tensors;
}

}  // namespace baleen::test
