#include "checkpoint/checkpoint_writer.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "base/error.h"
#include "checkpoint/checkpoint.h"

namespace baleen {
namespace {

namespace fs = std::filesystem;

std::vector<std::vector<TensorHeader>> split_into_shards(std::vector<TensorHeader> tensors,
                                                         std::int64_t max_shard_bytes) {
  std::vector<std::vector<TensorHeader>> shards(1);
  std::int64_t shard_bytes = 0;
  for (TensorHeader& tensor : tensors) {
    const std::int64_t size = tensor.size_bytes();
    if (shard_bytes > 0 && size > max_shard_bytes - shard_bytes) {
      shards.emplace_back();
      shard_bytes = 0;
    }
    shard_bytes += size;
    shards.back().push_back(std::move(tensor));
  }
  return shards;
}

void check_room(const fs::path& folder, std::int64_t needed_bytes) {
  std::error_code error;
  const fs::space_info space = fs::space(folder, error);
  if (!error && space.available < static_cast<std::uintmax_t>(needed_bytes)) {
    fail("{}: the checkpoint takes {:.3f} GB, the disk has {:.3f} GB left; free some, or write elsewhere",
         folder.string(), static_cast<double>(needed_bytes) / 1e9,
         static_cast<double>(space.available) / 1e9);
  }
}

}  // namespace

CheckpointWriter::CheckpointWriter(const fs::path& folder, std::vector<TensorHeader> tensors,
                                   std::int64_t max_shard_bytes)
    : folder_(folder) {
  auto plan = split_into_shards(std::move(tensors), max_shard_bytes);
  if (plan.size() > kMaxShards) {
    fail("{}: shards of at most {} bytes make {} files, at most {} are possible; try a larger shard size",
         folder.string(), max_shard_bytes, plan.size(), kMaxShards);
  }
  for (std::size_t i = 0; i < plan.size(); ++i) {
    Shard& shard = shards_.emplace_back();
    shard.file_name = plan.size() == 1 ? std::string(kSingleFileName)
                                       : fmt::format("model-{:05}-of-{:05}.safetensors", i + 1, plan.size());
    shard.tensors = storage_order(std::move(plan[i]));
    for (const TensorHeader& tensor : shard.tensors) {
      order_.push_back(tensor);
      total_bytes_ += tensor.size_bytes();
    }
  }
  std::error_code error;
  folder_is_ours_ = fs::create_directories(folder, error);
  if (error) fail("{}: cannot create the folder: {}", folder.string(), error.message());
  try {
    check_room(folder, total_bytes_);
    open_incomplete_shard();
  } catch (...) {
    if (folder_is_ours_) fs::remove(folder, error);
    throw;
  }
}

CheckpointWriter::~CheckpointWriter() {
  if (finished_) return;
  shards_.clear();  // removes their temporary files
  std::error_code ignored;
  if (folder_is_ours_) fs::remove(folder_, ignored);
}

void CheckpointWriter::open_incomplete_shard() {
  for (; current_ < shards_.size(); ++current_) {
    Shard& shard = shards_[current_];
    if (!shard.writer)
      shard.writer = std::make_unique<SafetensorsWriter>(folder_ / shard.file_name, shard.tensors);
    if (!shard.writer->complete()) return;
  }
}

void CheckpointWriter::append(std::string_view name, std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  BALEEN_CHECK_LT(current_, shards_.size());
  shards_[current_].writer->append(name, bytes);
  open_incomplete_shard();
}

void CheckpointWriter::finish(std::span<const TextFile> others) {
  BALEEN_CHECK_EQ(current_, shards_.size());
  // All temporary files are complete before the first of them gets its name, so a full disk shows here at the
  // latest.
  std::vector<std::unique_ptr<AtomicFileWriter>> texts;
  const auto prepare = [&](const std::string& name, const std::string& text) {
    fs::create_directories((folder_ / name).parent_path());
    texts.push_back(std::make_unique<AtomicFileWriter>(folder_ / name));
    texts.back()->write(text);
  };
  if (shards_.size() > 1) prepare(std::string(kIndexFileName), index_text());
  for (const TextFile& other : others) prepare(other.name, other.text);
  for (const Shard& shard : shards_) shard.writer->commit();
  for (const auto& text : texts) text->commit();
  finished_ = true;
}

std::string CheckpointWriter::index_text() const {
  std::map<std::string_view, std::string_view> places;
  for (const Shard& shard : shards_) {
    for (const TensorHeader& tensor : shard.tensors) places.emplace(tensor.name, shard.file_name);
  }
  std::string text = fmt::format(
      "{{\n  \"metadata\": {{\n    \"total_size\": {}\n  }},\n  \"weight_map\": {{", total_bytes_);
  const char* separator = "\n";
  for (const auto& [name, file] : places) {
    text +=
        fmt::format("{}    {}: \"{}\"", std::exchange(separator, ",\n"), nlohmann::json(name).dump(), file);
  }
  return text + "\n  }\n}\n";
}

}  // namespace baleen
