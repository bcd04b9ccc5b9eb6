/// A checkpoint in the released layout as the GGUF file that converters make of it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "numeric/bf16.h"
#include "tests/support/edited_checkpoint.h"
#include "tests/support/gguf_builder.h"

namespace baleen::test {

/// The nearest half, for normal values of its range.
inline std::uint16_t to_f16(float value) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof(bits));
  if ((bits & 0x7FFFFFFFU) == 0) return static_cast<std::uint16_t>(bits >> 16);
  const std::uint32_t rounded = bits + 0xFFFU + (bits >> 13 & 1U);
  return static_cast<std::uint16_t>((bits >> 16 & 0x8000U) |
                                    (((rounded & 0x7FFFFFFFU) >> 13) - (112U << 10)));
}

inline std::vector<float> bf16_values(const StoredTensor& tensor) {
  std::vector<float> values(tensor.bytes.size() / sizeof(Bf16Bits));
  for (std::size_t i = 0; i < values.size(); ++i) {
    Bf16Bits bits = 0;
    std::memcpy(&bits, tensor.bytes.data() + i * sizeof(bits), sizeof(bits));
    values[i] = bf16_to_float(bits);
  }
  return values;
}

/// Blocks of 32: a half that is a 127th of the largest magnitude, and integers.
inline std::string q8_0_blocks(std::span<const float> values) {
  std::string blocks;
  for (std::size_t begin = 0; begin < values.size(); begin += 32) {
    float largest = 0;
    for (std::size_t i = 0; i < 32; ++i) largest = std::max(largest, std::fabs(values[begin + i]));
    const float scale = largest / 127;
    blocks += gguf_bytes(to_f16(scale));
    for (std::size_t i = 0; i < 32; ++i)
      blocks += static_cast<char>(scale == 0 ? 0 : std::lround(values[begin + i] / scale));
  }
  return blocks;
}

/// Scale, then bytes of which the lower halves are elements 0 to 15.
inline std::string mxfp4_blocks(const StoredTensor& codes, const StoredTensor& scales) {
  std::string blocks;
  for (std::size_t group = 0; group < scales.bytes.size(); ++group) {
    blocks += static_cast<char>(scales.bytes[group]);
    const auto code = [&](std::size_t i) {
      const auto pair = std::to_integer<unsigned>(codes.bytes[group * 16 + i / 2]);
      return i % 2 == 0 ? pair & 15U : pair >> 4;
    };
    for (std::size_t i = 0; i < 16; ++i) blocks += static_cast<char>(code(i) | code(i + 16) << 4);
  }
  return blocks;
}

inline const std::map<std::string, std::string>& gguf_names() {
  static const std::map<std::string, std::string> kNames{
      {"embed.weight", "token_embd.weight"},
      {"head.weight", "output.weight"},
      {"norm.weight", "output_norm.weight"},
      {"hc_head_fn", "output_hc_fn.weight"},
      {"hc_head_base", "output_hc_base.weight"},
      {"hc_head_scale", "output_hc_scale.weight"},
      {"attn.attn_sink", "attn_sinks.weight"},
      {"attn.wq_a.weight", "attn_q_a.weight"},
      {"attn.wq_b.weight", "attn_q_b.weight"},
      {"attn.q_norm.weight", "attn_q_a_norm.weight"},
      {"attn.wkv.weight", "attn_kv.weight"},
      {"attn.kv_norm.weight", "attn_kv_a_norm.weight"},
      {"attn.wo_a.weight", "attn_output_a.weight"},
      {"attn.wo_b.weight", "attn_output_b.weight"},
      {"attn.compressor.ape", "attn_compressor_ape.weight"},
      {"attn.compressor.wkv.weight", "attn_compressor_kv.weight"},
      {"attn.compressor.wgate.weight", "attn_compressor_gate.weight"},
      {"attn.compressor.norm.weight", "attn_compressor_norm.weight"},
      {"attn.indexer.wq_b.weight", "indexer.attn_q_b.weight"},
      {"attn.indexer.weights_proj.weight", "indexer.proj.weight"},
      {"attn.indexer.compressor.ape", "indexer_compressor_ape.weight"},
      {"attn.indexer.compressor.wkv.weight", "indexer_compressor_kv.weight"},
      {"attn.indexer.compressor.wgate.weight", "indexer_compressor_gate.weight"},
      {"attn.indexer.compressor.norm.weight", "indexer_compressor_norm.weight"},
      {"ffn.gate.weight", "ffn_gate_inp.weight"},
      {"ffn.gate.bias", "exp_probs_b.bias"},
      {"ffn.gate.tid2eid", "ffn_gate_tid2eid.weight"},
      {"ffn.shared_experts.w1.weight", "ffn_gate_shexp.weight"},
      {"ffn.shared_experts.w2.weight", "ffn_down_shexp.weight"},
      {"ffn.shared_experts.w3.weight", "ffn_up_shexp.weight"},
      {"enorm.weight", "nextn.enorm.weight"},
      {"hnorm.weight", "nextn.hnorm.weight"},
      {"mtp norm.weight", "nextn.shared_head_norm.weight"},
      {"mtp hc_head_fn", "nextn.hc_head_fn.weight"},
      {"mtp hc_head_base", "nextn.hc_head_base.weight"},
      {"mtp hc_head_scale", "nextn.hc_head_scale.weight"}};
  return kNames;
}

struct GgufOptions {
  bool q8_0 = false;  ///< dense matrices, which have no scales in the checkpoint, become Q8_0
  std::string name = "tiny";
  std::string chat_template = "Reasoning Effort: Absolute maximum";
  /// Blocks of a stacked tensor of experts instead of MXFP4, by the number of elements; none: MXFP4.
  std::uint32_t expert_type = 39;
  std::function<std::string(std::int64_t elements)> expert_blocks = nullptr;
};

/// Dense matrices are in BF16 (`convert --dense bf16`), experts in FP4. Vectors become F32, hash
/// tables are I32, e_proj and h_proj are side by side, experts stacked.
class GgufOf {
 public:
  GgufOf(const EditedCheckpoint& checkpoint, const GgufOptions& options) : c_(checkpoint), options_(options) {
    add_keys();
    add_tokenizer();
    for (const auto& [name, tensor] : c_.tensors) add(name, tensor);
    for (const auto& [name, parts] : stacked_) add_stack(name, parts);
  }

  GgufBuilder file;

  /// What Q8_0 makes of a matrix, by its released name.
  std::map<std::string, std::vector<float>> rounded;

 private:
  [[nodiscard]] std::int64_t whole(const char* name) const { return c_.config.at(name).get<std::int64_t>(); }
  [[nodiscard]] double real(const char* name) const { return c_.config.at(name).get<double>(); }

  void add_keys() {
    const auto u32 = [&](const std::string& key, std::int64_t value) {
      file.key("deepseek4." + key, static_cast<std::uint32_t>(value));
    };
    const auto f32 = [&](const std::string& key, double value) {
      file.key("deepseek4." + key, static_cast<float>(value));
    };
    file.key("general.architecture", "deepseek4");
    file.key("general.name", options_.name);
    const std::int64_t layers = whole("num_hidden_layers");
    u32("block_count", layers);
    u32("vocab_size", whole("vocab_size"));
    u32("embedding_length", whole("hidden_size"));
    u32("context_length", whole("max_position_embeddings"));
    u32("attention.head_count", whole("num_attention_heads"));
    u32("attention.head_count_kv", 1);
    u32("attention.key_length", whole("head_dim"));
    u32("attention.value_length", whole("head_dim"));
    u32("attention.q_lora_rank", whole("q_lora_rank"));
    u32("attention.output_lora_rank", whole("o_lora_rank"));
    u32("attention.output_group_count", whole("o_groups"));
    u32("attention.sliding_window", whole("sliding_window"));
    u32("attention.indexer.head_count", whole("index_n_heads"));
    u32("attention.indexer.key_length", whole("index_head_dim"));
    u32("attention.indexer.top_k", whole("index_topk"));
    f32("attention.compress_rope_freq_base", real("compress_rope_theta"));
    f32("attention.layer_norm_rms_epsilon", real("rms_norm_eps"));
    u32("rope.dimension_count", whole("qk_rope_head_dim"));
    f32("rope.freq_base", real("rope_theta"));
    const auto& scaling = c_.config.at("rope_scaling");
    f32("rope.scaling.factor", scaling.at("factor"));
    u32("rope.scaling.original_context_length", scaling.at("original_max_position_embeddings"));
    f32("rope.scaling.yarn_beta_fast", scaling.at("beta_fast"));
    f32("rope.scaling.yarn_beta_slow", scaling.at("beta_slow"));
    u32("expert_count", whole("n_routed_experts"));
    u32("expert_used_count", whole("num_experts_per_tok"));
    u32("expert_shared_count", whole("n_shared_experts"));
    u32("expert_feed_forward_length", whole("moe_intermediate_size"));
    u32("expert_gating_func", 4);
    f32("expert_weights_scale", real("routed_scaling_factor"));
    file.flag("deepseek4.expert_weights_norm", c_.config.at("norm_topk_prob"));
    u32("hyper_connection.count", whole("hc_mult"));
    u32("hyper_connection.sinkhorn_iterations", whole("hc_sinkhorn_iters"));
    f32("hyper_connection.epsilon", real("hc_eps"));
    u32("hash_layer_count", whole("num_hash_layers"));
    file.array("deepseek4.attention.compress_ratios", GgufValueType::kI32,
               c_.config.at("compress_ratios").get<std::vector<std::int32_t>>());
    file.array(
        "deepseek4.swiglu_clamp_exp", GgufValueType::kF32,
        std::vector<float>(static_cast<std::size_t>(layers), static_cast<float>(real("swiglu_limit"))));
  }

  void add_tokenizer() {
    file.key("tokenizer.ggml.model", "gpt2");
    file.key("tokenizer.ggml.pre", "joyai-llm");
    file.key("tokenizer.ggml.bos_token_id", static_cast<std::uint32_t>(whole("bos_token_id")));
    file.key("tokenizer.ggml.eos_token_id", static_cast<std::uint32_t>(whole("eos_token_id")));
    if (!options_.chat_template.empty()) file.key("tokenizer.chat_template", options_.chat_template);
    const auto json =
        nlohmann::json::parse(read_text_file(std::filesystem::path("models/stories") / "tokenizer.json"));
    std::vector<std::string> tokens(static_cast<std::size_t>(whole("vocab_size")));
    std::vector<std::int32_t> kinds(tokens.size(), 5);
    for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = "[PAD" + std::to_string(i) + "]";
    const auto put = [&](std::size_t id, const std::string& text, std::int32_t kind) {
      tokens.at(id) = text;
      kinds.at(id) = kind;
    };
    for (const auto& [text, id] : json.at("model").at("vocab").items()) put(id, text, 1);
    for (const auto& token : json.at("added_tokens")) {
      const std::string text = token.at("content");
      const bool is_control =
          token.at("special").get<bool>() || text.starts_with("<｜") || text.starts_with("<|");
      put(token.at("id"), text, is_control ? 3 : 4);
    }
    std::vector<std::string> merges;
    for (const auto& merge : json.at("model").at("merges"))
      merges.push_back(merge.is_string() ? merge.get<std::string>()
                                         : merge[0].get<std::string>() + " " + merge[1].get<std::string>());
    file.array("tokenizer.ggml.tokens", GgufValueType::kString, tokens);
    file.array("tokenizer.ggml.token_type", GgufValueType::kI32, kinds);
    file.array("tokenizer.ggml.merges", GgufValueType::kString, merges);
  }

  /// The prefix here and what follows it there.
  [[nodiscard]] std::pair<std::string, std::string> divided(const std::string& name) const {
    const bool is_mtp = name.starts_with("mtp.");
    if (!is_mtp && !name.starts_with("layers.")) return {"", name};
    const std::size_t begin = name.find('.') + 1, end = name.find('.', begin);
    const std::int64_t number =
        std::stoll(name.substr(begin, end - begin)) + (is_mtp ? whole("num_hidden_layers") : 0);
    std::string rest = name.substr(end + 1);
    const bool is_own = rest == "norm.weight" || rest.starts_with("hc_head");
    return {"blk." + std::to_string(number) + ".", (is_mtp && is_own ? "mtp " : "") + rest};
  }

  void add(const std::string& name, const StoredTensor& tensor) {
    const auto [prefix, rest] = divided(name);
    if (rest.ends_with(".scale")) return;  // with its weight
    if (rest.find("ffn.experts.") != std::string::npos || rest.starts_with("e_proj") ||
        rest.starts_with("h_proj")) {
      const char* const stack = rest.find(".w1.") != std::string::npos   ? "ffn_gate_exps.weight"
                                : rest.find(".w2.") != std::string::npos ? "ffn_down_exps.weight"
                                : rest.find(".w3.") != std::string::npos ? "ffn_up_exps.weight"
                                                                         : "nextn.eh_proj.weight";
      stacked_[prefix + stack].push_back(name);
      return;
    }
    const auto found = gguf_names().find(rest);
    const std::string own = prefix + (found != gguf_names().end() ? found->second
                                      : rest.ends_with(".weight") ? rest
                                                                  : rest + ".weight");
    if (tensor.dtype == DType::kI64) {
      std::string ids;
      for (std::size_t i = 0; i < tensor.bytes.size(); i += 8)
        ids.append(reinterpret_cast<const char*>(tensor.bytes.data()) + i, 4);
      file.tensor(own, tensor.shape, 26, ids);
    } else if (tensor.dtype == DType::kF32) {
      file.tensor(own, tensor.shape, GgmlType::kF32, tensor.bytes);
    } else if (tensor.shape.size() == 1) {
      const std::vector<float> values = bf16_values(tensor);
      file.tensor(own, tensor.shape, GgmlType::kF32, std::as_bytes(std::span(values)));
    } else if (options_.q8_0 && is_dense(rest)) {
      add_q8_0(own, name, tensor.shape, bf16_values(tensor));
    } else {
      file.tensor(own, tensor.shape, GgmlType::kBF16, tensor.bytes);
    }
  }

  /// What releases have in FP8.
  static bool is_dense(const std::string& rest) {
    return rest.starts_with("attn.w") || rest.starts_with("ffn.shared") ||
           rest == "attn.indexer.wq_b.weight" || rest.starts_with("e_proj") || rest.starts_with("h_proj");
  }

  void add_q8_0(const std::string& own, const std::string& name, const std::vector<std::int64_t>& shape,
                const std::vector<float>& values) {
    const std::string blocks = q8_0_blocks(values);
    file.tensor(own, shape, 8, blocks);
    remember(name, blocks);
  }
  void remember(const std::string& name, const std::string& blocks) {
    std::vector<float>& to = rounded[name];
    for (std::size_t at = 0; at < blocks.size(); at += 34) {
      std::uint16_t half = 0;
      std::memcpy(&half, blocks.data() + at, sizeof(half));
      const float scale =
          half == 0 ? 0.0F : std::ldexp(1.0F + static_cast<float>(half & 1023) / 1024.0F, (half >> 10) - 15);
      for (std::size_t i = 0; i < 32; ++i)
        to.push_back(scale * static_cast<float>(static_cast<signed char>(blocks[at + 2 + i])));
    }
  }

  void add_stack(const std::string& own, std::vector<std::string> parts) {
    const StoredTensor& first = c_.tensors.at(parts.front());
    if (own.ends_with("eh_proj.weight")) return add_halves(own, parts[0], parts[1]);
    // In the order of the experts, not of their names.
    std::ranges::sort(parts, {}, [](const std::string& name) { return std::pair(name.size(), name); });
    const std::int64_t rows = first.shape[0], cols = 2 * first.shape[1];
    std::string blocks;
    for (const std::string& part : parts) {
      const std::string scale = part.substr(0, part.size() - 6) + "scale";
      blocks += options_.expert_blocks ? options_.expert_blocks(rows * cols)
                                       : mxfp4_blocks(c_.tensors.at(part), c_.tensors.at(scale));
    }
    file.tensor(own, {std::ssize(parts), rows, cols}, options_.expert_type, blocks);
  }

  void add_halves(const std::string& own, const std::string& e_proj, const std::string& h_proj) {
    const std::vector<float> left = bf16_values(c_.tensors.at(e_proj)),
                             right = bf16_values(c_.tensors.at(h_proj));
    const std::int64_t width = c_.tensors.at(e_proj).shape[1];
    std::string blocks;
    for (std::size_t row = 0; row < left.size(); row += static_cast<std::size_t>(width)) {
      for (const std::vector<float>* half : {&left, &right}) {
        const std::span<const float> values = std::span(*half).subspan(row, static_cast<std::size_t>(width));
        if (options_.q8_0) {
          const std::string own_blocks = q8_0_blocks(values);
          remember(half == &left ? e_proj : h_proj, own_blocks);
          blocks += own_blocks;
        } else {
          for (const float value : values) blocks += gguf_bytes(float_to_bf16(value));
        }
      }
    }
    file.tensor(own, {c_.tensors.at(e_proj).shape[0], 2 * width}, options_.q8_0 ? 8 : 30, blocks);
  }

  const EditedCheckpoint& c_;
  GgufOptions options_;
  std::map<std::string, std::vector<std::string>> stacked_;
};

}  // namespace baleen::test
