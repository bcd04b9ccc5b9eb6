#include "training_data/shard_format.h"

#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>

#include "base/error.h"
#include "base/number.h"

namespace baleen {
namespace {

static_assert(std::endian::native == std::endian::little, "files are little endian, and copied as they are");

/// Far beyond any shard, near enough that no size overflows.
constexpr std::int64_t kMaxTokens = std::int64_t{1} << 48;

constexpr std::size_t up_to_8(std::size_t bytes) { return (bytes + 7) / 8 * 8; }

}  // namespace

std::string_view split_name(DataSplit split) { return split == DataSplit::kTrain ? "train" : "held-out"; }

TokenizerHash hash_tokenizer(std::string_view tokenizer_json) {
  const XXH128_hash_t hash = XXH3_128bits(tokenizer_json.data(), tokenizer_json.size());
  return {.high = hash.high64, .low = hash.low64};
}

ShardLayout layout_of(const ShardHeader& header) {
  const auto num_tokens = static_cast<std::size_t>(header.totals.num_tokens);
  ShardLayout layout;
  layout.ends = kShardHeaderBytes;
  layout.tokens = layout.ends + 8 * static_cast<std::size_t>(header.totals.num_documents);
  layout.target_bits = layout.tokens + up_to_8(num_tokens * header.token_bytes);
  layout.checksum = layout.target_bits + 8 * ((num_tokens + 63) / 64);
  layout.file = layout.checksum + kShardChecksumBytes;
  return layout;
}

std::uint64_t header_hash_of(const ShardHeader& header) {
  return XXH3_64bits(&header, offsetof(ShardHeader, header_hash));
}

std::uint32_t token_bytes_of(std::int64_t vocab_size) { return vocab_size <= (1 << 16) ? 2 : 4; }

std::string shard_file_name(DataSplit split, std::uint32_t shard) {
  return fmt::format("{}-{:05}.tokens", split_name(split), shard);
}

bool is_shard_file_name(std::string_view name) {
  for (const DataSplit split : {DataSplit::kTrain, DataSplit::kHeldOut}) {
    if (!name.starts_with(split_name(split)) || !name.ends_with(".tokens")) continue;
    const std::string_view number =
        name.substr(split_name(split).size(), name.size() - split_name(split).size() - 7);
    if (number.size() >= 6 && number.front() == '-' &&
        std::ranges::all_of(number.substr(1), [](char c) { return c >= '0' && c <= '9'; }))
      return true;
  }
  return false;
}

std::string shard_checksum(std::span<const std::byte> file, const std::string& path) {
  if (file.size() < kShardHeaderBytes + kShardChecksumBytes)
    fail("{}: {} bytes are no shard of tokens; pack the data again", path, file.size());
  std::string text;
  for (const std::byte byte : file.last(kShardChecksumBytes)) text += fmt::format("{:02x}", byte);
  return text;
}

ShardHeader shard_header_of(std::span<const std::byte> file, const std::string& path) {
  ShardHeader header;
  if (file.size() < kShardHeaderBytes ||
      std::memcmp(file.data(), kShardMagic.data(), kShardMagic.size()) != 0)
    fail("{}: not a shard of tokens; expected a file that `baleen data pack` wrote", path);
  std::memcpy(&header, file.data(), kShardHeaderBytes);
  if (header.version != kShardVersion)
    fail("{}: version {} of the format, expected {}; pack the data again", path, header.version,
         kShardVersion);
  const ShardTotals& totals = header.totals;
  const bool sound = header.header_hash == header_hash_of(header) &&
                     (header.token_bytes == 2 || header.token_bytes == 4) && totals.num_documents > 0 &&
                     totals.num_tokens >= totals.num_documents && totals.num_tokens <= kMaxTokens &&
                     header.vocab_size > 0 && header.shard < header.num_shards;
  if (!sound) fail("{}: its header is damaged; pack the data again", path);
  if (const std::size_t expected = layout_of(header).file; file.size() != expected) {
    fail("{}: {} bytes, its header says {}; is the file complete?", path,
         grouped(static_cast<std::uint64_t>(file.size())), grouped(static_cast<std::uint64_t>(expected)));
  }
  return header;
}

}  // namespace baleen
