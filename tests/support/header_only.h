/// Checkpoints whose tensors are holes: true names, shapes and sizes of the released models without their
/// bytes.
#pragma once

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "model/config.h"
#include "model/tensor_table.h"

namespace baleen::test {

/// model.safetensors and config.json. Takes the disk that the header takes.
inline void write_header_only(const std::filesystem::path& folder, const std::vector<TensorHeader>& tensors,
                              const std::string& config) {
  std::filesystem::create_directories(folder);
  std::string header = "{";
  std::int64_t offset = 0;
  for (const TensorHeader& tensor : tensors) {
    header += fmt::format("{}\"{}\":{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}",
                          offset == 0 ? "" : ",", tensor.name, dtype_name(tensor.dtype),
                          fmt::join(tensor.shape, ","), offset, offset + tensor.size_bytes());
    offset += tensor.size_bytes();
  }
  header += "}";
  const std::uint64_t length = header.size();
  const std::filesystem::path file = folder / kSingleFileName;
  {
    std::ofstream out(file, std::ios::binary);
    out.write(reinterpret_cast<const char*>(&length), sizeof(length));
    out << header;
    std::ofstream(folder / "config.json") << config;
  }
  std::filesystem::resize_file(file, sizeof(length) + length + static_cast<std::uint64_t>(offset));
}

[[nodiscard]] inline std::vector<TensorHeader> headers_of(const ModelConfig& config,
                                                          const StorageFormats& formats) {
  std::vector<TensorHeader> tensors;
  for (const TensorSpec& spec : tensor_table(config))
    for (const TensorHeader& tensor : stored_tensors(spec, formats)) tensors.push_back(tensor);
  return tensors;
}

/// The tensors of a release with three DSpark stages instead of MTP blocks. The rules for what a stage has
/// beside what every block has are not the table's.
[[nodiscard]] inline std::vector<TensorHeader> dspark_headers(const ModelConfig& config,
                                                              const StorageFormats& formats) {
  ModelConfig blocks = config;
  blocks.draft_kind = DraftKind::kMtp;
  blocks.num_nextn_predict_layers = 3;
  std::vector<TensorHeader> tensors = headers_of(blocks, formats);
  std::erase_if(tensors, [](const TensorHeader& tensor) {
    if (!tensor.name.starts_with("mtp.")) return false;
    const std::string rest = tensor.name.substr(6);
    if (rest.starts_with("norm.") || rest.starts_with("hc_head")) return !tensor.name.starts_with("mtp.2.");
    return rest.starts_with("e_proj") || rest.starts_with("h_proj") || rest.starts_with("enorm") ||
           rest.starts_with("hnorm");
  });
  const std::int64_t d = config.hidden_size, rank = config.dspark.markov_rank;
  tensors.push_back({"mtp.0.main_proj.weight", DType::kF8E4M3, {d, 3 * d}});
  tensors.push_back({"mtp.0.main_proj.scale", formats.dense_scale, {d / 128, 3 * d / 128}});
  tensors.push_back({"mtp.0.main_norm.weight", DType::kBF16, {d}});
  for (const char* name : {"markov_w1", "markov_w2"})
    tensors.push_back(
        {fmt::format("mtp.2.markov_head.{}.weight", name), DType::kBF16, {config.vocab_size, rank}});
  tensors.push_back({"mtp.2.confidence_head.proj.weight", DType::kBF16, {1, d + rank}});
  return tensors;
}

/// What ModelOpt writes beside NVFP4 weights.
inline void add_input_scales(std::vector<TensorHeader>& tensors) {
  std::vector<TensorHeader> scales;
  for (const TensorHeader& tensor : tensors) {
    if (!tensor.name.ends_with(".weight_scale_2")) continue;
    scales.push_back({tensor.name.substr(0, tensor.name.size() - 14) + "input_scale", DType::kF32, {}});
  }
  tensors.insert(tensors.end(), scales.begin(), scales.end());
}

/// What Vision-Exp has beside that: a tower of 32 blocks, an aligner, image tokens, a router bias in every
/// block.
inline void add_vision_headers(const ModelConfig& config, std::vector<TensorHeader>& tensors) {
  const std::int64_t d = config.hidden_size;
  const auto add = [&](const std::string& name, std::vector<std::int64_t> shape, DType dtype = DType::kBF16) {
    tensors.push_back({name, dtype, std::move(shape)});
  };
  for (std::int64_t layer = 0; layer < config.num_hidden_layers; ++layer)
    add(fmt::format("layers.{}.ffn.gate.bias_vl", layer), {config.n_routed_experts}, DType::kF32);
  for (int stage = 0; stage < 3; ++stage)
    add(fmt::format("mtp.{}.ffn.gate.bias_vl", stage), {config.n_routed_experts}, DType::kF32);
  for (const char* name : {"image_end", "image_newline", "image_pad", "image_start"}) add(name, {d});
  add("aligner.w1.weight", {d, 9216});
  add("aligner.w1.bias", {d});
  add("aligner.w2.weight", {d, d});
  add("aligner.w2.bias", {d});
  add("vision.patch_embed.proj.weight", {1024, 588});
  add("vision.patch_embed.proj.bias", {1024});
  add("vision.norm.weight", {1024});
  for (int block = 0; block < 32; ++block) {
    const std::string prefix = fmt::format("vision.blocks.{}.", block);
    add(prefix + "attn.wqkv.weight", {3072, 1024});
    add(prefix + "attn.wqkv.bias", {3072});
    add(prefix + "attn.wo.weight", {1024, 1024});
    add(prefix + "attn.wo.bias", {1024});
    add(prefix + "mlp.w1.weight", {5632, 1024});
    add(prefix + "mlp.w2.weight", {1024, 2816});
    add(prefix + "norm1.weight", {1024});
    add(prefix + "norm2.weight", {1024});
  }
}

}  // namespace baleen::test
