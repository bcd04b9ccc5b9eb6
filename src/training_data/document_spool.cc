#include "training_data/document_spool.h"

#include <xxhash.h>

namespace baleen {
namespace {

constexpr std::size_t kSpoolBufferBytes = 4 << 20;

}  // namespace

DocumentSpool::DocumentSpool(const std::filesystem::path& path) : path_(path) { writer_.emplace(path); }

void DocumentSpool::add(const TokenDocument& document) {
  const auto tokens = std::as_bytes(std::span(document.tokens));
  const auto targets = std::as_bytes(std::span(document.is_target));
  const std::uint64_t seed = XXH3_64bits(targets.data(), targets.size());
  entries_.push_back({.offset = size_,
                      .content_hash = XXH3_64bits_withSeed(tokens.data(), tokens.size(), seed),
                      .num_tokens = static_cast<std::int64_t>(document.tokens.size()),
                      .num_targets = document.num_targets,
                      .num_text_bytes = document.num_text_bytes});
  buffer_.insert(buffer_.end(), tokens.begin(), tokens.end());
  buffer_.insert(buffer_.end(), targets.begin(), targets.end());
  size_ += tokens.size() + targets.size();
  if (buffer_.size() < kSpoolBufferBytes) return;
  writer_->write(buffer_);
  buffer_.clear();
}

void DocumentSpool::finish() {
  writer_->write(buffer_);
  writer_->commit();
  writer_.reset();
  buffer_ = {};
  file_.emplace(path_);
}

std::span<const std::byte> DocumentSpool::tokens(const Entry& entry) const {
  return file_->bytes().subspan(entry.offset, static_cast<std::size_t>(entry.num_tokens) * sizeof(TokenId));
}

std::span<const std::byte> DocumentSpool::targets(const Entry& entry) const {
  return file_->bytes().subspan(entry.offset + static_cast<std::size_t>(entry.num_tokens) * sizeof(TokenId),
                                static_cast<std::size_t>(entry.num_tokens));
}

}  // namespace baleen
