/// Which files there are, in order of use, and what they weigh. Knows nothing of the disk. Not thread-safe.
#pragma once

#include <cstdint>
#include <list>
#include <optional>
#include <unordered_map>

#include "disk_tier/page_key.h"

namespace baleen {

struct IndexedFile {
  PageKey key;
  std::int64_t bytes = 0;
  bool has_window = false;
  std::int64_t serial = 0;  ///< number of this writing; the index gives it
};

class FileIndex {
 public:
  /// As the most recently used; replaces the file of that key.
  void add(const PageKey& key, std::int64_t bytes, bool has_window);
  [[nodiscard]] const IndexedFile* find(const PageKey& key) const;
  void touch(const PageKey& key);
  void remove(const PageKey& key);
  [[nodiscard]] const IndexedFile* oldest() const { return files_.empty() ? nullptr : &files_.front(); }

  [[nodiscard]] std::int64_t num_files() const { return static_cast<std::int64_t>(files_.size()); }
  [[nodiscard]] std::int64_t file_bytes() const { return file_bytes_; }

 private:
  using Files = std::list<IndexedFile>;  ///< least recently used first

  Files files_;
  std::unordered_map<PageKey, Files::iterator, PageKeyHash> by_key_;
  std::int64_t file_bytes_ = 0;
  std::int64_t last_serial_ = 0;
};

}  // namespace baleen
