#include "disk_tier/file_index.h"

namespace baleen {

void FileIndex::add(const PageKey& key, std::int64_t bytes, bool has_window) {
  remove(key);
  files_.push_back({.key = key, .bytes = bytes, .has_window = has_window, .serial = ++last_serial_});
  by_key_[key] = std::prev(files_.end());
  file_bytes_ += bytes;
}

const IndexedFile* FileIndex::find(const PageKey& key) const {
  const auto found = by_key_.find(key);
  return found == by_key_.end() ? nullptr : &*found->second;
}

void FileIndex::touch(const PageKey& key) {
  const auto found = by_key_.find(key);
  if (found != by_key_.end()) files_.splice(files_.end(), files_, found->second);
}

void FileIndex::remove(const PageKey& key) {
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) return;
  file_bytes_ -= found->second->bytes;
  files_.erase(found->second);
  by_key_.erase(found);
}

}  // namespace baleen
