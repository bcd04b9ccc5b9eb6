/// The records of a corpus: all its files one after the other, a record a line of JSON or a text file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "training_data/corpus_file.h"

namespace baleen {

/// What a text file is cut into.
enum class TextRecords : std::uint8_t {
  kFiles,  ///< the file is one record
  kLines,  ///< each line is one, with its newline; what the `tokenizers` library trains on
};

struct CorpusRecord {
  std::string text;  ///< the line, where the corpus is JSON lines
  CorpusFormat format = CorpusFormat::kText;
  std::size_t file = 0;   ///< index in the corpus
  std::int64_t line = 0;  ///< from 1; 0: the whole file
};

/// Of text to read before threads share the work on it.
inline constexpr std::size_t kRecordBytesAtOnce = 8 << 20;

class Corpus {
 public:
  /// An empty `format` means: by each file's name. Throws `Error` where a file does not exist.
  Corpus(std::vector<std::filesystem::path> files, std::optional<CorpusFormat> format,
         TextRecords text_records);

  /// Replaces `records` by the next ones, of together at least `num_bytes` where there are so many; false at
  /// the end. Lines of white space in JSON lines are left out. Throws `Error` as `CorpusFile` does, and for a
  /// file that holds nothing, or NUL bytes.
  [[nodiscard]] bool next_records(std::vector<CorpusRecord>& records, std::size_t num_bytes);

  /// "FILE, line N", or "FILE".
  [[nodiscard]] std::string place(const CorpusRecord& record) const;
  /// Bytes read and to read, pipes not counted in the latter: for progress.
  [[nodiscard]] std::int64_t bytes_read() const { return bytes_before_ + (file_ ? file_->bytes_read() : 0); }
  [[nodiscard]] std::int64_t size() const { return size_; }

 private:
  /// The next record of the open file; false at its end.
  [[nodiscard]] bool next_record(CorpusRecord& record);

  std::vector<std::filesystem::path> paths_;
  std::optional<CorpusFormat> format_;
  TextRecords text_records_;
  std::size_t next_path_ = 0;
  std::unique_ptr<CorpusFile> file_;
  CorpusFormat file_format_ = CorpusFormat::kText;
  bool file_gave_records_ = false;
  std::int64_t bytes_before_ = 0;  ///< size of the files before this one
  std::int64_t size_ = 0;
};

}  // namespace baleen
