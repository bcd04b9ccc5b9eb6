/// Later releases, base checkpoints and foreign quantisations made out of a checkpoint in the preview's
/// form: the same main model, other draft heads, other scales, other names.
/// (source: releases specification)
#pragma once

#include <cmath>
#include <fstream>
#include <string>
#include <vector>

#include "numeric/e8m0.h"
#include "tests/support/edited_checkpoint.h"

namespace baleen::test {

inline bool is_draft(const std::string& name) { return name.starts_with("mtp."); }

inline bool is_routed_expert(const std::string& name) {
  return name.find(".ffn.experts.") != std::string::npos;
}

inline std::int64_t hidden_size(const EditedCheckpoint& c) { return c.config["hidden_size"]; }

/// Three DSpark stages instead of the MTP block, and the config fields that come with them: as in 0731 and
/// 0813, where "num_nextn_predict_layers" stays 1.
inline void make_dspark(EditedCheckpoint& c) {
  constexpr std::int64_t kRank = 8;
  const std::int64_t d = hidden_size(c), vocabulary = c.config["vocab_size"];
  std::map<std::string, StoredTensor> block;
  for (const auto& [name, tensor] : c.tensors) {
    const std::string rest = is_draft(name) ? name.substr(6) : "";
    const bool of_mtp = rest.starts_with("e_proj") || rest.starts_with("h_proj") ||
                        rest.starts_with("enorm") || rest.starts_with("hnorm") || rest.starts_with("norm") ||
                        rest.starts_with("hc_head");
    if (!rest.empty() && !of_mtp) block[rest] = tensor;
  }
  c.erase_if(is_draft);
  for (const char* stage : {"mtp.0.", "mtp.1.", "mtp.2."})
    for (const auto& [rest, tensor] : block) c.tensors[stage + rest] = tensor;
  // Values from 2^-7 to 2^-6.
  const auto add = [&](const std::string& name, DType dtype, std::vector<std::int64_t> shape) {
    c.add(name, dtype, std::move(shape));
    const auto width = static_cast<std::size_t>(dtype_bytes(dtype));
    std::vector<std::byte>& bytes = c.tensors.at(name).bytes;
    for (std::size_t i = width - 1; i < bytes.size(); i += width) bytes[i] = std::byte{0x3c};
  };
  c.add("mtp.0.main_proj.weight", DType::kF8E4M3, {d, 3 * d});
  c.add("mtp.0.main_proj.scale", DType::kF8E8M0, {d / 128, 3 * d / 128});
  add("mtp.0.main_norm.weight", DType::kBF16, {d});
  add("mtp.2.norm.weight", DType::kBF16, {d});
  add("mtp.2.hc_head_fn", DType::kF32, {4, 4 * d});
  add("mtp.2.hc_head_base", DType::kF32, {4});
  add("mtp.2.hc_head_scale", DType::kF32, {1});
  for (const char* name : {"markov_w1", "markov_w2"})
    add(std::string("mtp.2.markov_head.") + name + ".weight", DType::kBF16, {vocabulary, kRank});
  add("mtp.2.confidence_head.proj.weight", DType::kBF16, {1, d + kRank});
  const std::int64_t layers = c.config["num_hidden_layers"];
  auto& ratios = c.config["compress_ratios"];
  ratios.insert(ratios.end(), {0, 0});
  c.config["num_nextn_predict_layers"] = 1;  // as released, beside three stages
  c.config["dspark_block_size"] = 5;
  c.config["dspark_markov_rank"] = kRank;
  c.config["dspark_noise_token_id"] = vocabulary - 1;
  c.config["dspark_target_layer_ids"] = {layers - 3, layers - 2, layers - 1};
}

/// Vision of the Vision-Exp release beside the model: a tower, an aligner, image tokens, and a second
/// router bias in every layer.
inline void add_vision(EditedCheckpoint& c) {
  const std::int64_t d = hidden_size(c), experts = c.config["n_routed_experts"];
  std::vector<std::string> gates;
  for (const auto& [name, tensor] : c.tensors)
    if (name.ends_with("ffn.gate.weight")) gates.push_back(name.substr(0, name.size() - 6));
  for (const std::string& gate : gates) c.add(gate + "bias_vl", DType::kF32, {experts});
  c.add("vision.patch_embed.proj.weight", DType::kBF16, {64, 588});
  c.add("vision.patch_embed.proj.bias", DType::kBF16, {64});
  c.add("vision.blocks.0.attn.wqkv.weight", DType::kBF16, {192, 64});
  c.add("vision.blocks.0.mlp.w1.weight", DType::kBF16, {64, 64});
  c.add("vision.norm.weight", DType::kBF16, {64});
  c.add("aligner.w1.weight", DType::kBF16, {d, 576});
  c.add("aligner.w1.bias", DType::kBF16, {d});
  for (const char* name : {"image_start", "image_end", "image_newline", "image_pad"})
    c.add(name, DType::kBF16, {d});
  c.config["vision_n_layers"] = 1;
  c.config["vision_dim"] = 64;
  c.config["num_nextn_predict_layers"] = 3;
  for (int i = 0; i < 2; ++i) c.config["compress_ratios"].push_back(0);
}

/// The same of a V4.1.
inline void add_v41_vision(EditedCheckpoint& c) {
  const std::int64_t d = c.config["text_config"]["hidden_size"];
  std::vector<std::pair<std::string, std::int64_t>> biases;
  for (const auto& [name, tensor] : c.tensors)
    if (name.ends_with("ffn.gate.bias")) biases.emplace_back(name + "_vl", tensor.shape[0]);
  for (const auto& [name, experts] : biases) c.add(name, DType::kF32, {experts});
  c.add("vision.blocks.0.attn.wo.weight", DType::kBF16, {64, 64}, 5);
  c.add("vision.norm.weight", DType::kBF16, {64});
  c.add("aligner.w1.weight", DType::kBF16, {d, 576});
  c.add("image_start", DType::kBF16, {d});
  c.config["image_token_id"] = c.config["text_config"]["vocab_size"].get<std::int64_t>() - 2;
  c.config["vision_config"] = {{"model_type", "deepseek_v41_vision"}, {"num_hidden_layers", 1}};
}

/// From 1 to below 2, with 13 bits: what scale i of a matrix is multiplied by (make_goldens.py, `OddScales`).
inline float odd_factor(std::size_t i) { return 1.0F + static_cast<float>((37 * i + 11) % 4096) / 4096.0F; }

/// Block scales of FP8 matrices in F32, scale i of each times `factor(i)`: as in Base checkpoints.
template <class Factor>
void make_scales_f32(EditedCheckpoint& c, const Factor& factor) {
  for (auto& [name, tensor] : c.tensors) {
    if (!name.ends_with(".scale") || tensor.dtype != DType::kF8E8M0) continue;
    if (c.tensors.at(name.substr(0, name.size() - 5) + "weight").dtype != DType::kF8E4M3) continue;
    std::vector<std::byte> bytes(tensor.bytes.size() * sizeof(float));
    for (std::size_t i = 0; i < tensor.bytes.size(); ++i) {
      const float value = factor(i) * e8m0_to_float(static_cast<std::uint8_t>(tensor.bytes[i]));
      std::memcpy(bytes.data() + i * sizeof(float), &value, sizeof(value));
    }
    tensor = {DType::kF32, tensor.shape, std::move(bytes)};
  }
}

inline void make_scales_f32(EditedCheckpoint& c, float factor = 1.0F) {
  make_scales_f32(c, [factor](std::size_t) { return factor; });
}

/// What Base has beside that: the MTP block's own embedding and head.
inline void add_vocabulary_copies(EditedCheckpoint& c) {
  c.tensors["mtp.0.emb.tok_emb.weight"] = c.tensors.at("embed.weight");
  c.tensors["mtp.0.head.weight"] = c.tensors.at("head.weight");
}

/// The layers' MXFP4 experts in NVFP4 as ModelOpt stores it, an MTP block's left as they are: the same codes,
/// and scales that are no powers of two, of each 16 weights an E4M3 number, of each matrix one in float32
/// (make_goldens.py, `OddNvfp4`).
inline void make_nvfp4(EditedCheckpoint& c) {
  std::vector<std::string> stems;
  for (const auto& [name, tensor] : c.tensors)
    if (is_routed_expert(name) && !is_draft(name) && name.ends_with(".weight"))
      stems.push_back(name.substr(0, name.size() - 7));
  const auto add_f32 = [&](const std::string& name, float value) {
    StoredTensor tensor{DType::kF32, {}, std::vector<std::byte>(sizeof(value))};
    std::memcpy(tensor.bytes.data(), &value, sizeof(value));
    c.tensors[name] = std::move(tensor);
  };
  for (const std::string& stem : stems) {
    StoredTensor& weight = c.tensors.at(stem + ".weight");
    weight.dtype = DType::kU8;
    const StoredTensor groups = c.tensors.at(stem + ".scale");
    c.tensors.erase(stem + ".scale");
    int largest = 0, sum = 0;
    for (const std::byte code : groups.bytes) largest = std::max(largest, std::to_integer<int>(code));
    for (const char letter : stem) sum += letter;
    StoredTensor scales{DType::kF8E4M3, {groups.shape[0], 2 * groups.shape[1]}, {}};
    for (std::size_t i = 0; i < 2 * groups.bytes.size(); ++i) {
      const int exponent = std::max(std::to_integer<int>(groups.bytes[i / 2]) - largest + 14, 1);
      scales.bytes.push_back(static_cast<std::byte>(exponent * 8 + static_cast<int>((5 * i + 3) % 8)));
    }
    c.tensors[stem + ".weight_scale"] = std::move(scales);
    const double odd = 1.0 + static_cast<double>((37 * sum + 11) % 4096) / 4096.0;
    add_f32(stem + ".weight_scale_2", static_cast<float>(std::ldexp(odd, largest - 134)));
    add_f32(stem + ".input_scale", 0.5F);
  }
  c.config["quantization_config"]["moe_quant_algo"] = "NVFP4";
}

/// What tells the releases' encoders apart, as they write it.
inline constexpr const char* kPreviewEncoder =
    "import json\n\nREASONING_EFFORT_MAX = (\n    \"Reasoning Effort: Absolute maximum\"\n)\n";
inline constexpr const char* kOfficialEncoder =
    "import json\n\nREASONING_EFFORT_PROMPTS: Dict[str, str] = {\n    \"low\": \"\",\n    \"high\": (\n"
    "        \"Reasoning Effort: Absolute maximum\"\n    ),\n    \"max\": \"Reasoning Effort: Beyond "
    "maximum\",\n}\nDEFAULT_REASONING_EFFORT = \"low\"\n";

inline constexpr const char* kV41Encoder =
    "import json\n\nREASONING_EFFORT_MAPPINGS: Dict[str, int] = {\n    \"low\": 50,\n    \"high\": 75,\n"
    "    \"max\": 100,\n}\nDEFAULT_REASONING_EFFORT = \"high\"\n";

/// The encoder's file in a checkpoint's folder.
inline void write_encoder(const std::filesystem::path& folder, const char* text,
                          const char* name = "encoding_dsv4.py") {
  std::filesystem::create_directories(folder / "encoding");
  std::ofstream(folder / "encoding" / name) << text;
}

/// Replaces weight and scale of every routed expert of the layers by tensors that `put` adds for a stem of
/// shape [out, in].
template <class Put>
void replace_experts(EditedCheckpoint& c, const Put& put) {
  std::vector<std::pair<std::string, std::vector<std::int64_t>>> stems;
  for (const auto& [name, tensor] : c.tensors) {
    if (!is_routed_expert(name) || is_draft(name) || !name.ends_with(".weight")) continue;
    const std::int64_t packed = tensor.dtype == DType::kI8 ? 2 : 1;
    stems.push_back({name.substr(0, name.size() - 7), {tensor.shape[0], packed * tensor.shape[1]}});
  }
  c.erase_if([](const std::string& name) { return is_routed_expert(name) && !is_draft(name); });
  for (const auto& [stem, shape] : stems) put(stem, shape[0], shape[1]);
}

}  // namespace baleen::test
