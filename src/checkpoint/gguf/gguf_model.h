/// A model in GGUF: one file, or the parts that it was split into.
///
///     NAME-00001-of-00005.gguf ... NAME-00005-of-00005.gguf     the keys are the first part's
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "checkpoint/gguf/gguf_file.h"

namespace baleen {

/// Maps all parts, and reads headers only. Movable; tensors and keys point into the maps.
class GgufModel {
 public:
  /// `path`: any part. Throws `Error` as `parse_gguf` does, and where parts are missing, are not each
  /// other's, or name a tensor twice.
  explicit GgufModel(const std::filesystem::path& path);

  /// The first part.
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }
  [[nodiscard]] const GgufKeys& keys() const { return keys_; }
  /// Of all parts, in name order.
  [[nodiscard]] const std::vector<GgufTensor>& tensors() const { return tensors_; }
  /// Null when there is none of that name. Binary search.
  [[nodiscard]] const GgufTensor* find(std::string_view name) const;
  [[nodiscard]] std::vector<const MappedFile*> files() const;

 private:
  struct Part {
    explicit Part(const std::filesystem::path& path);

    MappedFile file;
    std::string label;
    GgufContents contents;
  };

  void open_parts(const std::filesystem::path& any);

  std::filesystem::path path_;
  std::vector<std::unique_ptr<Part>> parts_;
  GgufKeys keys_;
  std::vector<GgufTensor> tensors_;
};

/// Whether `path` is a file that begins as GGUF files do.
[[nodiscard]] bool is_gguf_file(const std::filesystem::path& path);

/// What to open where `path` is given for a model: itself, if it is a GGUF file; of a folder without
/// safetensors its only GGUF file, or the first of the parts of its only model. Nothing for anything else.
/// Throws `Error` where a folder has several models, which it names.
[[nodiscard]] std::optional<std::filesystem::path> find_gguf(const std::filesystem::path& path);

}  // namespace baleen
