/// A checkpoint held in memory, to be changed tensor by tensor and written as another release would have it.
#pragma once

#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/file.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/checkpoint_writer.h"

namespace baleen::test {

struct StoredTensor {
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape;
  std::vector<std::byte> bytes;
};

class EditedCheckpoint {
 public:
  using Json = nlohmann::ordered_json;

  explicit EditedCheckpoint(const std::filesystem::path& folder)
      : config(Json::parse(read_text_file(folder / "config.json"))), from_(folder) {
    const Checkpoint checkpoint(folder);
    for (const TensorInfo& tensor : checkpoint.tensors())
      tensors[tensor.name] = {tensor.dtype, tensor.shape, {tensor.bytes.begin(), tensor.bytes.end()}};
  }

  /// Bytes by formula; `first` is that of the first one.
  void add(const std::string& name, DType dtype, std::vector<std::int64_t> shape, unsigned first = 1) {
    const TensorHeader header{name, dtype, shape};
    std::vector<std::byte> bytes(static_cast<std::size_t>(header.size_bytes()));
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>((i * 7 + first) % 120);
    tensors[name] = {dtype, std::move(shape), std::move(bytes)};
  }
  void erase_if(const std::function<bool(const std::string&)>& wanted) {
    std::erase_if(tensors, [&](const auto& entry) { return wanted(entry.first); });
  }
  void rename(const std::function<std::string(const std::string&)>& renamed) {
    std::map<std::string, StoredTensor> all;
    for (auto& [name, tensor] : tensors) all[renamed(name)] = std::move(tensor);
    tensors = std::move(all);
  }

  /// With the other files of the folder that it came from (tokenizer, generation_config).
  void write(const std::filesystem::path& folder, std::int64_t max_shard_bytes = INT64_MAX) const {
    std::vector<TensorHeader> headers;
    for (const auto& [name, tensor] : tensors) headers.push_back({name, tensor.dtype, tensor.shape});
    CheckpointWriter writer(folder, headers, max_shard_bytes);
    for (const TensorHeader& header : writer.order())
      writer.append(header.name, tensors.at(header.name).bytes);
    std::vector<TextFile> others;
    for (const auto& entry : std::filesystem::directory_iterator(from_)) {
      const std::string name = entry.path().filename();
      if (entry.path().extension() == ".json" && name != "config.json" && name != kIndexFileName)
        others.push_back({name, read_text_file(entry.path())});
    }
    others.push_back({"config.json", config.dump(2)});
    writer.finish(others);
  }

  Json config;
  std::map<std::string, StoredTensor> tensors;

 private:
  std::filesystem::path from_;
};

}  // namespace baleen::test
