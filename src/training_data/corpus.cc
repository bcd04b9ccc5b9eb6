#include "training_data/corpus.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "base/error.h"

namespace baleen {

Corpus::Corpus(std::vector<std::filesystem::path> files, std::optional<CorpusFormat> format,
               TextRecords text_records)
    : paths_(std::move(files)), format_(format), text_records_(text_records) {
  for (const std::filesystem::path& path : paths_) {
    std::error_code error;
    if (!std::filesystem::exists(path, error)) fail("{}: no such file", path.string());
    if (!std::filesystem::is_regular_file(path, error)) continue;
    const auto bytes = std::filesystem::file_size(path, error);
    if (!error) size_ += static_cast<std::int64_t>(bytes);
  }
}

std::string Corpus::place(const CorpusRecord& record) const {
  const std::string path = paths_[record.file].string();
  return record.line == 0 ? path : fmt::format("{}, line {}", path, record.line);
}

bool Corpus::next_record(CorpusRecord& record) {
  record.format = file_format_;
  record.file = next_path_ - 1;
  if (file_format_ == CorpusFormat::kText && text_records_ == TextRecords::kFiles) {
    record.text = file_->rest();
    record.line = 0;
    return !record.text.empty();
  }
  while (file_->next_line(record.text)) {
    record.line = file_->line_number();
    const bool blank = record.text.find_first_not_of(" \t\r\n") == std::string::npos;
    if (!blank || file_format_ == CorpusFormat::kText) return true;
  }
  return false;
}

bool Corpus::next_records(std::vector<CorpusRecord>& records, std::size_t num_bytes) {
  records.clear();
  std::size_t size = 0;
  while (size < num_bytes) {
    if (!file_) {
      if (next_path_ == paths_.size()) break;
      const std::filesystem::path& path = paths_[next_path_++];
      file_ = std::make_unique<CorpusFile>(path);
      file_format_ = format_.value_or(format_of_name(path));
      file_gave_records_ = false;
    }
    CorpusRecord record;
    if (next_record(record)) {
      if (record.text.find('\0') != std::string::npos)
        fail("{}: holds a NUL byte; expected text, is this a binary file?", place(record));
      file_gave_records_ = true;
      size += record.text.size();
      records.push_back(std::move(record));
      continue;
    }
    if (!file_gave_records_) fail("{}: holds nothing; leave it out", paths_[next_path_ - 1].string());
    bytes_before_ += file_->bytes_read();
    file_.reset();
  }
  return !records.empty();
}

}  // namespace baleen
