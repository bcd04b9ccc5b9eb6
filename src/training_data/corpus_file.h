/// One file of a corpus, read as it comes: text or JSON lines, plain or compressed with zstd, a regular file
/// or a pipe. Memory is one block and the line in hand.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/piped_text.h"

struct ZSTD_DCtx_s;

namespace baleen {

enum class CorpusFormat : std::uint8_t { kText, kJsonLines };

/// By the name: `.jsonl`, `.ndjson` or `.json`, with or without `.zst` behind, are JSON lines, all else is
/// text.
[[nodiscard]] CorpusFormat format_of_name(const std::filesystem::path& path);

class CorpusFile {
 public:
  /// Compression is recognised by the first bytes. Throws `Error` as `ByteStream` does.
  explicit CorpusFile(const std::filesystem::path& path);
  ~CorpusFile();

  /// The next line with its newline, where it has one; false at the end. Throws `Error` that names file and
  /// line: a line of more than kMaxLineBytes, damaged or unfinished compression.
  [[nodiscard]] bool next_line(std::string& line);
  /// All that is left, of at most kMaxLineBytes.
  [[nodiscard]] std::string rest();

  /// Of the line that `next_line` gave last, from 1.
  [[nodiscard]] std::int64_t line_number() const { return line_number_; }
  /// Bytes of the file taken in so far, and all of them (0 for a pipe): for progress.
  [[nodiscard]] std::int64_t bytes_read() const { return bytes_read_; }
  [[nodiscard]] std::int64_t size() const { return stream_.size(); }

 private:
  struct FreeDecompressor {
    void operator()(ZSTD_DCtx_s* context) const;
  };

  /// Appends what is left of the block to `text` up to a newline, included; true where one was found.
  bool take_line(std::string& text);
  /// The next block of plain bytes; false at the end.
  bool fill();
  bool fill_raw();
  bool fill_decompressed();
  void check_length(const std::string& text) const;

  ByteStream stream_;
  std::unique_ptr<ZSTD_DCtx_s, FreeDecompressor> decompressor_;  ///< empty for plain files
  std::vector<char> raw_, plain_;
  /// Bytes left of the blocks above (`left_` of raw_ where nothing is compressed).
  std::span<const char> raw_left_, left_;
  bool in_frame_ = false;  ///< a compressed frame has begun and not ended
  std::int64_t line_number_ = 0;
  std::int64_t bytes_read_ = 0;
};

}  // namespace baleen
