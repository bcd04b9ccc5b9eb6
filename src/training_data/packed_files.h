/// checksums.json of a packed folder: what `baleen data pack` wrote there, so that a file that vanished or
/// changed later is noticed.
///
///     {"version": 1, "files": {"tokenizer.json": "XXH3-128", "train-00000.tokens": "...", ...},
///      "checksum": "of the names and checksums above"}
///
/// A shard is listed with the checksum that ends it, any other file with that of its bytes.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "training_data/shard_format.h"

namespace baleen {

inline constexpr const char* kPackedFilesName = "checksums.json";

class PackedFiles {
 public:
  /// Of every file that is in `folder` now.
  [[nodiscard]] static PackedFiles of_folder(const std::filesystem::path& folder);
  /// The list that lies in `folder`; empty where an earlier version packed it. Throws `Error` for a damaged
  /// one, for a file of the list that is missing, and for text files with other bytes. Shards are checked as
  /// they are opened.
  [[nodiscard]] static std::optional<PackedFiles> read(const std::filesystem::path& folder);

  void write(const std::filesystem::path& folder) const;
  [[nodiscard]] bool has_split(DataSplit split) const {
    return checksums_.contains(shard_file_name(split, 0));
  }
  /// Throws `Error` where the file at `path` is not listed or has another checksum.
  void check(const std::filesystem::path& path, const std::string& checksum) const;

 private:
  [[nodiscard]] std::string checksum() const;

  std::map<std::string, std::string> checksums_;  ///< keys are file names
};

}  // namespace baleen
