#include "training_data/corpus_file.h"

#include <zstd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <new>
#include <string_view>

#include "base/error.h"
#include "base/number.h"

namespace baleen {
namespace {

constexpr std::size_t kBlockBytes = 1 << 20;
constexpr std::string_view kZstdMagic = "\x28\xB5\x2F\xFD";

}  // namespace

CorpusFormat format_of_name(const std::filesystem::path& path) {
  std::filesystem::path name = path.filename();
  if (name.extension() == ".zst") name = name.stem();
  constexpr std::array<std::string_view, 3> kEndings{".jsonl", ".ndjson", ".json"};
  const bool is_json = std::ranges::find(kEndings, name.extension().string()) != kEndings.end();
  return is_json ? CorpusFormat::kJsonLines : CorpusFormat::kText;
}

void CorpusFile::FreeDecompressor::operator()(ZSTD_DCtx_s* context) const { ZSTD_freeDCtx(context); }

CorpusFile::CorpusFile(const std::filesystem::path& path) : stream_(path), raw_(kBlockBytes) {
  // A pipe may give its first bytes one by one.
  std::size_t size = 0;
  while (size < kZstdMagic.size()) {
    const std::size_t got = stream_.read(std::span(raw_).subspan(size));
    if (got == 0) break;
    size += got;
  }
  bytes_read_ = static_cast<std::int64_t>(size);
  raw_left_ = std::span(raw_).first(size);
  if (!std::string_view(raw_.data(), size).starts_with(kZstdMagic)) {
    left_ = raw_left_;
    return;
  }
  decompressor_.reset(ZSTD_createDCtx());
  if (!decompressor_) throw std::bad_alloc();
  plain_.resize(kBlockBytes);
}

CorpusFile::~CorpusFile() = default;

bool CorpusFile::fill_raw() {
  const std::size_t got = stream_.read(raw_);
  bytes_read_ += static_cast<std::int64_t>(got);
  raw_left_ = std::span(raw_).first(got);
  return got > 0;
}

bool CorpusFile::fill_decompressed() {
  while (true) {
    if (raw_left_.empty() && !fill_raw()) {
      if (in_frame_) fail("{}: ends inside a zstd frame; is the file complete?", stream_.path().string());
      return false;
    }
    ZSTD_inBuffer in{raw_left_.data(), raw_left_.size(), 0};
    ZSTD_outBuffer out{plain_.data(), plain_.size(), 0};
    const std::size_t state = ZSTD_decompressStream(decompressor_.get(), &out, &in);
    if (ZSTD_isError(state)) {
      fail("{}: damaged zstd data after line {}: {}", stream_.path().string(), line_number_,
           ZSTD_getErrorName(state));
    }
    in_frame_ = state != 0;
    raw_left_ = raw_left_.subspan(in.pos);
    left_ = std::span(plain_).first(out.pos);
    if (out.pos > 0) return true;
  }
}

bool CorpusFile::fill() {
  if (decompressor_) return fill_decompressed();
  const bool any = fill_raw();
  left_ = raw_left_;
  return any;
}

void CorpusFile::check_length(const std::string& text) const {
  if (text.size() <= kMaxLineBytes) return;
  fail("{}, line {}: more than {} bytes; one document may not be longer", stream_.path().string(),
       line_number_ + 1, grouped(static_cast<std::uint64_t>(kMaxLineBytes)));
}

bool CorpusFile::take_line(std::string& text) {
  const void* newline = std::memchr(left_.data(), '\n', left_.size());
  const std::size_t size =
      newline == nullptr ? left_.size()
                         : static_cast<std::size_t>(static_cast<const char*>(newline) - left_.data()) + 1;
  text.append(left_.data(), size);
  left_ = left_.subspan(size);
  return newline != nullptr;
}

bool CorpusFile::next_line(std::string& line) {
  line.clear();
  while (!left_.empty() || fill()) {
    const bool whole = take_line(line);
    check_length(line);
    if (!whole) continue;
    ++line_number_;
    return true;
  }
  if (line.empty()) return false;
  ++line_number_;
  return true;
}

std::string CorpusFile::rest() {
  std::string text;
  while (!left_.empty() || fill()) {
    text.append(left_.data(), left_.size());
    left_ = {};
    check_length(text);
  }
  return text;
}

}  // namespace baleen
