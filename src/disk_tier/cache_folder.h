/// The folder of the tier: names, one owner, whole files.
///
///     FOLDER/lock                                    held (flock) while a process uses the folder
///     FOLDER/3f/3f0c..91.page                        a page: its key in 32 hexadecimal digits
///     FOLDER/3f/3f0c..91.page.new                    being written; of a killed process: removed at start
///     FOLDER/models/                                 what the engine keeps to know models by
///
/// Only names of these forms are ever written, renamed or removed. Files are for their owner alone (mode
/// 0600): their tokens can be read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/error.h"
#include "disk_tier/page_key.h"

namespace baleen {

/// A page file that looks sound from outside.
struct FoundFile {
  PageKey key;
  std::int64_t bytes = 0;
  bool has_window = false;
  std::int64_t last_use_ns = 0;  ///< since the epoch
};

/// Everything found in a folder.
struct FolderScan {
  std::vector<FoundFile> files;  ///< least recently used first
  std::int64_t num_rejected = 0;
};

/// Members may be called from two threads, for different keys.
class CacheFolder {
 public:
  using Warn = std::function<void(const std::string&)>;

  /// Creates the folder if need be. Throws `Error` when that fails or another process has it.
  explicit CacheFolder(std::filesystem::path folder);
  /// The folder `models`, created if need be; where that fails, nothing can be written there.
  [[nodiscard]] std::filesystem::path models() const;
  CacheFolder(const CacheFolder&) = delete;
  CacheFolder& operator=(const CacheFolder&) = delete;
  ~CacheFolder();

  /// Reads names and headers. Removes what was being written, and with a warning each what is named like a
  /// page file but is no sound one. What is named otherwise, or cannot be opened, is left alone, with one
  /// warning for all. Files of other models (`root` differs) are listed, with one warning for all: they weigh
  /// like others.
  FolderScan scan(const PageKey& root, const Warn& warn);

  [[nodiscard]] Result<std::vector<std::byte>> read(const PageKey& key, std::int64_t expected_bytes) const;
  /// Writes and syncs under the temporary name; `publish` gives it its own.
  [[nodiscard]] Result<std::monostate> prepare(const PageKey& key, std::span<const std::byte> bytes,
                                               std::int64_t last_use_ns);
  [[nodiscard]] Result<std::monostate> publish(const PageKey& key);
  void mark_used(const PageKey& key, std::int64_t last_use_ns) const;
  void remove(const PageKey& key) const;
  [[nodiscard]] std::filesystem::path path_of(const PageKey& key) const;

 private:
  std::filesystem::path folder_;
  int lock_descriptor_ = -1;
};

}  // namespace baleen
