#include "training_data/token_shards.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <system_error>

#include "base/check.h"
#include "base/checksum.h"
#include "base/error.h"
#include "base/map_advice.h"
#include "training_data/packed_files.h"

namespace baleen {
namespace {

template <class T>
T value_at(std::span<const std::byte> file, std::size_t offset) {
  T value;
  std::memcpy(&value, file.data() + offset, sizeof(T));
  return value;
}

constexpr std::size_t kWindowBytes = 64 << 20;  ///< a multiple of a page

/// Every document holds a token, and the last one ends where the tokens do.
void check_ends(std::span<const std::byte> file, const ShardHeader& header, const ShardLayout& layout,
                const std::string& path) {
  std::int64_t before = 0;
  for (std::int64_t i = 0; i < header.totals.num_documents; ++i) {
    const auto end = value_at<std::int64_t>(file, layout.ends + 8 * static_cast<std::size_t>(i));
    if (end <= before || end > header.totals.num_tokens)
      fail("{}: document {} ends at token {}, the one before at {} of {}; the file is damaged", path, i, end,
           before, header.totals.num_tokens);
    before = end;
  }
  if (before != header.totals.num_tokens)
    fail("{}: its documents end at token {} of {}; the file is damaged", path, before,
         header.totals.num_tokens);
}

}  // namespace

/// A document in its file.
struct TokenShards::Place {
  std::size_t file = 0;
  std::int64_t begin = 0, end = 0;  ///< tokens of the file
};

bool TokenShards::has(const std::filesystem::path& folder, DataSplit split) {
  std::error_code ignored;
  if (const std::optional<PackedFiles> packed = PackedFiles::read(folder)) return packed->has_split(split);
  return std::filesystem::exists(folder / shard_file_name(split, 0), ignored);
}

void TokenShards::check_contents(std::size_t shard) const {
  const MappedFile& file = files_[shard];
  const std::size_t end = layout_of(headers_[shard]).checksum;
  Checksum found;
  for (std::size_t begin = 0; begin < end; begin += kWindowBytes) {
    const std::span<const std::byte> window =
        file.bytes().subspan(begin, std::min(kWindowBytes, end - begin));
    found.add(window);
    // Read once: a corpus that is larger than memory does not stay in this process's.
    end_reading(window);
  }
  if (found.text() != shard_checksum(file.bytes(), file.path().string()))
    fail("{}: its bytes do not match its checksum; the file is damaged, pack the data again",
         file.path().string());
}

std::string TokenShards::checksum() const {
  Checksum all;
  for (const MappedFile& file : files_) all.add(shard_checksum(file.bytes(), file.path().string()));
  return all.text();
}

TokenShards TokenShards::open(const std::filesystem::path& folder, DataSplit split, ShardCheck check) {
  TokenShards shards;
  const std::optional<PackedFiles> packed = PackedFiles::read(folder);
  shards.are_listed_ = packed.has_value();
  const std::filesystem::path first = folder / shard_file_name(split, 0);
  std::error_code ignored;
  if (!std::filesystem::exists(first, ignored)) {
    fail("{}: no {} data here (no {}); write it with `baleen data pack`", folder.string(), split_name(split),
         first.filename().string());
  }
  std::uint32_t num_shards = 1;
  for (std::uint32_t shard = 0; shard < num_shards; ++shard) {
    const MappedFile& file = shards.files_.emplace_back(folder / shard_file_name(split, shard));
    const std::string path = file.path().string();
    const ShardHeader header = shard_header_of(file.bytes(), path);
    if (shard == 0) {
      num_shards = header.num_shards;
      shards.vocab_size_ = header.vocab_size;
      shards.tokenizer_hash_ = header.tokenizer;
    }
    if (header.shard != shard || header.split != split || header.num_shards != num_shards)
      fail("{}: shard {} of {} ({}), expected {} of {} ({}); was it renamed?", path, header.shard,
           header.num_shards, split_name(header.split), shard, num_shards, split_name(split));
    if (header.vocab_size != shards.vocab_size_ || header.tokenizer != shards.tokenizer_hash_)
      fail("{}: written with another tokenizer than the first shard; pack the data again", path);
    if (packed) packed->check(file.path(), shard_checksum(file.bytes(), path));
    shards.headers_.push_back(header);
    if (check == ShardCheck::kContents) shards.check_contents(shard);
    check_ends(file.bytes(), header, layout_of(header), path);
    shards.first_document_.push_back(shards.totals_.num_documents);
    shards.totals_.num_documents += header.totals.num_documents;
    shards.totals_.num_tokens += header.totals.num_tokens;
    shards.totals_.num_targets += header.totals.num_targets;
    shards.totals_.num_text_bytes += header.totals.num_text_bytes;
  }
  shards.first_document_.push_back(shards.totals_.num_documents);
  return shards;
}

TokenShards::Place TokenShards::place_of(std::int64_t document) const {
  BALEEN_CHECK(document >= 0 && document < num_documents());
  const auto after = std::ranges::upper_bound(first_document_, document);
  const auto file = static_cast<std::size_t>(after - first_document_.begin()) - 1;
  const auto local = static_cast<std::size_t>(document - first_document_[file]);
  const std::span<const std::byte> bytes = files_[file].bytes();
  const std::size_t ends = kShardHeaderBytes + 8 * local;
  return {file, local == 0 ? 0 : value_at<std::int64_t>(bytes, ends - 8),
          value_at<std::int64_t>(bytes, ends)};
}

std::int64_t TokenShards::document_size(std::int64_t document) const {
  const Place place = place_of(document);
  return place.end - place.begin;
}

void TokenShards::read(std::int64_t document, std::int64_t begin, std::span<TokenId> tokens,
                       std::span<std::uint8_t> is_target) const {
  const Place place = place_of(document);
  const auto size = static_cast<std::int64_t>(tokens.size());
  BALEEN_CHECK(begin >= 0 && begin + size <= place.end - place.begin && is_target.size() == tokens.size());
  const std::span<const std::byte> bytes = files_[place.file].bytes();
  const ShardHeader& header = headers_[place.file];
  const ShardLayout layout = layout_of(header);
  for (std::int64_t i = 0; i < size; ++i) {
    const auto at = static_cast<std::size_t>(place.begin + begin + i);
    const auto token = header.token_bytes == 2
                           ? std::uint32_t{value_at<std::uint16_t>(bytes, layout.tokens + 2 * at)}
                           : value_at<std::uint32_t>(bytes, layout.tokens + 4 * at);
    if (token >= header.vocab_size)
      fail("{}: token {} is {}, the vocabulary has {}; the file is damaged, pack the data again",
           files_[place.file].path().string(), at, token, header.vocab_size);
    tokens[static_cast<std::size_t>(i)] = static_cast<TokenId>(token);
    const auto word = value_at<std::uint64_t>(bytes, layout.target_bits + 8 * (at / 64));
    is_target[static_cast<std::size_t>(i)] = static_cast<std::uint8_t>((word >> (at % 64)) & 1);
  }
}

std::int64_t TokenShards::count_targets(std::int64_t document, std::int64_t begin, std::int64_t end) const {
  const Place place = place_of(document);
  BALEEN_CHECK(begin >= 0 && begin <= end && end <= place.end - place.begin);
  const std::span<const std::byte> bytes = files_[place.file].bytes();
  const std::size_t bits = layout_of(headers_[place.file]).target_bits;
  std::int64_t count = 0;
  auto at = static_cast<std::size_t>(place.begin + begin);
  const auto last = static_cast<std::size_t>(place.begin + end);
  while (at < last) {
    const std::size_t in_word = std::min<std::size_t>(64 - at % 64, last - at);
    std::uint64_t word = value_at<std::uint64_t>(bytes, bits + 8 * (at / 64)) >> (at % 64);
    if (in_word < 64) word &= (std::uint64_t{1} << in_word) - 1;
    count += std::popcount(word);
    at += in_word;
  }
  return count;
}

}  // namespace baleen
