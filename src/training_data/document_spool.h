/// Tokenised documents on disk until their final order is known: packing needs all lengths before it writes
/// the first shard, and a corpus need not fit in memory. 40 bytes of memory a document.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <vector>

#include "base/file.h"
#include "training_data/training_text.h"

namespace baleen {

class DocumentSpool {
 public:
  struct Entry {
    std::uint64_t offset = 0;        ///< where it begins in the file
    std::uint64_t content_hash = 0;  ///< digest of tokens and targets: equal documents have equal ones
    std::int64_t num_tokens = 0;
    std::int64_t num_targets = 0;
    std::int64_t num_text_bytes = 0;
  };

  /// Makes the file, which must go with its folder.
  explicit DocumentSpool(const std::filesystem::path& path);

  void add(const TokenDocument& document);
  /// Before the first read and after the last add.
  void finish();

  [[nodiscard]] std::span<const Entry> entries() const { return entries_; }
  /// Views into the file; a token has four bytes, a target one.
  [[nodiscard]] std::span<const std::byte> tokens(const Entry& entry) const;
  [[nodiscard]] std::span<const std::byte> targets(const Entry& entry) const;

 private:
  std::filesystem::path path_;
  std::optional<AtomicFileWriter> writer_;
  std::optional<MappedFile> file_;
  std::vector<std::byte> buffer_;
  std::uint64_t size_ = 0;
  std::vector<Entry> entries_;
};

}  // namespace baleen
