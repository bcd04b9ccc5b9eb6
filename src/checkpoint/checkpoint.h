/// A checkpoint folder: its tensors, wherever they lie in its files. Knows names, types and bytes, nothing of
/// models.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "checkpoint/made_bytes.h"
#include "checkpoint/safetensors.h"

namespace baleen {

inline constexpr std::string_view kIndexFileName = "model.safetensors.index.json";
inline constexpr std::string_view kSingleFileName = "model.safetensors";

/// Tensor name -> name of the file that holds it.
using WeightMap = std::map<std::string, std::string, std::less<>>;

/// The weight_map of an index file's text. Throws `Error` unless it is a JSON object whose "weight_map" maps
/// names to plain file names (no folders), each name once.
[[nodiscard]] WeightMap parse_weight_map(std::string_view text, std::string_view label);

/// Tensors out of files that are no safetensors.
struct ForeignFiles {
  /// One tensor as its file has it.
  struct Stored {
    std::string format;  ///< "Q8_0"
    std::int64_t bytes = 0;
  };

  std::vector<const MappedFile*> files;   ///< `owner` keeps them
  std::shared_ptr<const MadeBytes> made;  ///< those of tensors that the files have in another form
  std::vector<Stored> stored;
};

/// Maps all files at once and copies nothing: opening reads headers only, weights come from disk when
/// touched. Movable; `TensorInfo`s stay valid. Thread-safe to read.
class Checkpoint {
 public:
  /// Looks for, in this order: an index file and the shards it names; `model.safetensors`; the only
  /// *.safetensors. Throws `Error` when there is none of them, when a shard is absent or damaged, or when a
  /// tensor is not in the shard where the index puts it.
  explicit Checkpoint(const std::filesystem::path& folder);

  /// Tensors that lie in memory, which `owner` keeps; `label` names them in messages.
  Checkpoint(std::string_view label, std::vector<TensorInfo> tensors, std::shared_ptr<const void> owner);
  /// The same of foreign files. Bytes of tensors that are made have to be acquired before they are read.
  Checkpoint(std::string_view label, std::vector<TensorInfo> tensors, std::shared_ptr<const void> owner,
             ForeignFiles foreign);

  [[nodiscard]] const std::filesystem::path& folder() const { return folder_; }
  /// In name order.
  [[nodiscard]] const std::vector<TensorInfo>& tensors() const { return tensors_; }
  /// Null when there is none of that name. Binary search.
  [[nodiscard]] const TensorInfo* find(std::string_view name) const { return find_tensor(tensors_, name); }
  /// As `find`, but throws `Error` when the tensor is missing.
  [[nodiscard]] const TensorInfo& at(std::string_view name) const;
  /// Names of tensors that lie in a shard though the index does not list them there; they are not loaded.
  [[nodiscard]] const std::vector<std::string>& unlisted() const { return unlisted_; }
  [[nodiscard]] std::size_t num_files() const { return files().size(); }
  /// The files that the tensors lie in; none where they lie in memory.
  [[nodiscard]] std::vector<const MappedFile*> files() const;
  /// Whether they are no safetensors: their matrices may differ in format from one to the next.
  [[nodiscard]] bool is_foreign() const { return !foreign_.files.empty(); }
  /// As foreign files have them; empty for others.
  [[nodiscard]] const std::vector<ForeignFiles::Stored>& stored() const { return foreign_.stored; }
  /// Makes the bytes at some addresses; null where all bytes are there already.
  [[nodiscard]] const std::shared_ptr<const MadeBytes>& made() const { return foreign_.made; }

 private:
  void open_shards(const std::filesystem::path& index_path);

  std::filesystem::path folder_;
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  std::shared_ptr<const void> owner_;
  ForeignFiles foreign_;
  std::vector<TensorInfo> tensors_;
  std::vector<std::string> unlisted_;
};

}  // namespace baleen
