#include "checkpoint/checkpoint.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "base/quoted_text.h"
#include "checkpoint/folder_check.h"

namespace baleen {
namespace {

/// Reads { ..., "weight_map": { name: file, ... }, ... } and skips every other member.
class IndexReader final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit IndexReader(std::string_view label) : label_(label) {}

  bool found() const { return found_; }
  WeightMap take() { return std::move(map_); }

  bool start_object(std::size_t) override {
    if (in_map()) refuse_value();
    ++depth_;
    return true;
  }
  bool end_object() override {
    --depth_;
    return true;
  }
  bool start_array(std::size_t) override {
    if (in_map() || depth_ == 0) refuse_value();
    ++depth_;
    return true;
  }
  bool end_array() override { return end_object(); }
  bool key(std::string& name) override {
    if (depth_ == 1) {
      weight_map_ = name == "weight_map";
      if (weight_map_ && std::exchange(found_, true)) fail("{}: \"weight_map\" appears twice", label_);
    }
    name_ = std::move(name);
    return true;
  }
  bool string(std::string& file) override {
    if (!in_map()) return other_value();
    if (file.empty() || file == "." || file == ".." || file.find('/') != std::string::npos ||
        file.find('\0') != std::string::npos) {
      fail("{}: tensor {} should be in {}, which is not a plain file name", label_, quoted_text(name_, 200),
           quoted_text(file, 200));
    }
    if (!map_.emplace(name_, std::move(file)).second)
      fail("{}: tensor {} is listed twice", label_, quoted_text(name_, 200));
    return true;
  }
  bool null() override { return other_value(); }
  bool boolean(bool) override { return other_value(); }
  bool number_integer(std::int64_t) override { return other_value(); }
  bool number_unsigned(std::uint64_t) override { return other_value(); }
  bool number_float(double, const std::string&) override { return other_value(); }
  bool binary(nlohmann::json::binary_t&) override { return other_value(); }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception&) override {
    fail("{}: not valid JSON at byte {}; is the download complete?", label_, position);
  }

 private:
  bool in_map() const { return weight_map_ && depth_ == 2; }
  bool other_value() const {
    if (in_map() || depth_ == 0 || (depth_ == 1 && weight_map_)) refuse_value();
    return true;
  }
  [[noreturn]] void refuse_value() const {
    fail("{}: expected \"weight_map\" to map tensor names to file names, found another value at {}", label_,
         quoted_text(name_, 200));
  }

  std::string_view label_;
  WeightMap map_;
  std::string name_;
  int depth_ = 0;
  bool weight_map_ = false;
  bool found_ = false;
};

/// The single file of a folder without an index.
std::filesystem::path single_file(const std::filesystem::path& folder) {
  const auto usual = folder / kSingleFileName;
  if (std::filesystem::exists(usual)) return usual;
  std::vector<std::filesystem::path> found;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".safetensors") found.push_back(entry.path());
  }
  if (found.size() == 1) return found.front();
  if (found.empty()) {
    if (const auto other = other_weights_sentence(folder)) fail("{}", *other);
    fail("{}: no *.safetensors here; expected {}, or {} and the shards it names", folder.string(),
         kSingleFileName, kIndexFileName);
  }
  fail("{}: {} *.safetensors files but no {} that says which tensor is where; is the download complete?",
       folder.string(), found.size(), kIndexFileName);
}

}  // namespace

WeightMap parse_weight_map(std::string_view text, std::string_view label) {
  IndexReader reader(label);
  if (const auto refused = read_json(text, reader)) fail("{}: not valid JSON: {}", label, refused->message);
  if (!reader.found()) fail("{}: no \"weight_map\"", label);
  return reader.take();
}

Checkpoint::Checkpoint(const std::filesystem::path& folder) : folder_(folder) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(folder, ignored)) check_checkpoint_folder(folder);
  const auto index_path = folder / kIndexFileName;
  if (std::filesystem::exists(index_path)) {
    open_shards(index_path);
  } else {
    files_.push_back(std::make_unique<SafetensorsFile>(single_file(folder)));
    tensors_ = files_.front()->tensors();
  }
}

Checkpoint::Checkpoint(std::string_view label, std::vector<TensorInfo> tensors,
                       std::shared_ptr<const void> owner)
    : folder_(label), owner_(std::move(owner)), tensors_(std::move(tensors)) {
  std::ranges::sort(tensors_, {}, &TensorInfo::name);
}

Checkpoint::Checkpoint(std::string_view label, std::vector<TensorInfo> tensors,
                       std::shared_ptr<const void> owner, ForeignFiles foreign)
    : Checkpoint(label, std::move(tensors), std::move(owner)) {
  foreign_ = std::move(foreign);
}

void Checkpoint::open_shards(const std::filesystem::path& index_path) {
  const WeightMap weight_map = parse_weight_map(read_text_file(index_path), index_path.string());
  std::map<std::string_view, const SafetensorsFile*> shards;
  for (const auto& [name, file] : weight_map) shards.emplace(file, nullptr);
  for (auto& [file, shard] : shards) {
    const auto path = folder_ / file;
    if (!std::filesystem::exists(path)) {
      fail("{}: absent, but {} puts tensors there; is the download complete?", path.string(), kIndexFileName);
    }
    files_.push_back(std::make_unique<SafetensorsFile>(path));
    shard = files_.back().get();
  }
  tensors_.reserve(weight_map.size());
  for (const auto& [name, file] : weight_map) {
    const TensorInfo* tensor = shards.at(file)->find(name);
    if (tensor == nullptr) {
      fail("{}: no tensor {}, though {} puts it there; do index and shards come from the same revision?",
           (folder_ / file).string(), quoted_text(name, 200), kIndexFileName);
    }
    tensors_.push_back(*tensor);
  }
  for (const auto& [file, shard] : shards) {
    for (const TensorInfo& tensor : shard->tensors()) {
      const auto listed = weight_map.find(tensor.name);
      if (listed == weight_map.end() || listed->second != file) unlisted_.push_back(tensor.name);
    }
  }
}

std::vector<const MappedFile*> Checkpoint::files() const {
  std::vector<const MappedFile*> files = foreign_.files;
  for (const std::unique_ptr<SafetensorsFile>& file : files_) files.push_back(&file->file());
  return files;
}

const TensorInfo& Checkpoint::at(std::string_view name) const {
  const TensorInfo* tensor = find(name);
  if (tensor == nullptr)
    fail("{}: tensor {} is missing; is this a complete checkpoint?", folder_.string(),
         quoted_text(name, 200));
  return *tensor;
}

}  // namespace baleen
