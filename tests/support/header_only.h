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

/// The tensors of a release with three DSpark stages of this Markov rank instead of MTP blocks.
[[nodiscard]] inline std::vector<TensorHeader> dspark_headers(ModelConfig config,
                                                              const StorageFormats& formats,
                                                              std::int64_t rank) {
  config.num_nextn_predict_layers = 3;
  config.compress_ratios.resize(static_cast<std::size_t>(config.num_blocks()), 0);
  std::vector<TensorHeader> tensors = headers_of(config, formats);
  std::erase_if(tensors, [](const TensorHeader& tensor) {
    if (!tensor.name.starts_with("mtp.")) return false;
    const std::string rest = tensor.name.substr(6);
    if (rest.starts_with("norm.") || rest.starts_with("hc_head")) return !tensor.name.starts_with("mtp.2.");
    return rest.starts_with("e_proj") || rest.starts_with("h_proj") || rest.starts_with("enorm") ||
           rest.starts_with("hnorm");
  });
  const std::int64_t d = config.hidden_size;
  tensors.push_back({"mtp.0.main_proj.weight", DType::kF8E4M3, {d, 3 * d}});
  tensors.push_back({"mtp.0.main_proj.scale", formats.dense_scale, {d / 128, 3 * d / 128}});
  tensors.push_back({"mtp.0.main_norm.weight", DType::kBF16, {d}});
  for (const char* name : {"markov_w1", "markov_w2"})
    tensors.push_back(
        {fmt::format("mtp.2.markov_head.{}.weight", name), DType::kBF16, {config.vocab_size, rank}});
  tensors.push_back({"mtp.2.confidence_head.proj.weight", DType::kBF16, {1, d + rank}});
  return tensors;
}

}  // namespace baleen::test
