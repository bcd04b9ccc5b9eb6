/// The bytes of one shard of packed tokens.
///
///     offset  bytes  content (little endian)
///          0      8  "BALEENTS"
///          8      4  version of this format
///         12      4  bytes of a token, w: 2 or 4
///         16      8  number of documents, d
///         24      8  number of tokens, t
///         32      8  number of targets
///         40      8  bytes of UTF-8 that the tokens stand for
///         48      4  vocabulary size
///         52      4  split: 0 train, 1 held-out
///         56      4  number of this shard, from 0
///         60      4  number of shards of the split
///         64     16  XXH3-128 of tokenizer.json
///         80      8  seed of the order of documents
///         88      8  XXH3-64 of all before
///         96     8d  where each document ends, in tokens
///              + wt  tokens, and zeros up to a multiple of 8
///              +  b  bit i of these 8-byte words: training predicts token i; b = 8 * ceil(t / 64)
///              + 16  XXH3-128 of all before
///
/// Documents stand one after the other; nothing separates them but their ends.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace baleen {

enum class DataSplit : std::uint32_t { kTrain = 0, kHeldOut = 1 };

/// "train", "held-out".
[[nodiscard]] std::string_view split_name(DataSplit split);

struct TokenizerHash {
  std::uint64_t high = 0, low = 0;
  bool operator==(const TokenizerHash&) const = default;
};

/// XXH3-128 of the bytes of a tokenizer.json.
[[nodiscard]] TokenizerHash hash_tokenizer(std::string_view tokenizer_json);

struct ShardTotals {
  std::int64_t num_documents = 0;
  std::int64_t num_tokens = 0;
  std::int64_t num_targets = 0;
  std::int64_t num_text_bytes = 0;
  bool operator==(const ShardTotals&) const = default;
};

inline constexpr std::array<char, 8> kShardMagic = {'B', 'A', 'L', 'E', 'E', 'N', 'T', 'S'};
inline constexpr std::uint32_t kShardVersion = 1;
inline constexpr std::size_t kShardHeaderBytes = 96;
inline constexpr std::size_t kShardChecksumBytes = 16;

struct ShardHeader {
  std::array<char, 8> magic = kShardMagic;
  std::uint32_t version = kShardVersion;
  std::uint32_t token_bytes = 0;
  ShardTotals totals;
  std::uint32_t vocab_size = 0;
  DataSplit split = DataSplit::kTrain;
  std::uint32_t shard = 0;
  std::uint32_t num_shards = 0;
  TokenizerHash tokenizer;
  std::uint64_t seed = 0;
  std::uint64_t header_hash = 0;
};
static_assert(sizeof(ShardHeader) == kShardHeaderBytes);

/// Byte offsets of a shard's parts.
struct ShardLayout {
  std::size_t ends = 0, tokens = 0, target_bits = 0, checksum = 0, file = 0;
};

/// Of a header whose numbers are possible (`shard_header_of` checks them).
[[nodiscard]] ShardLayout layout_of(const ShardHeader& header);

/// What `header_hash` must be.
[[nodiscard]] std::uint64_t header_hash_of(const ShardHeader& header);

/// 2 where every id of the vocabulary fits, otherwise 4.
[[nodiscard]] std::uint32_t token_bytes_of(std::int64_t vocab_size);

/// "train-00000.tokens"
[[nodiscard]] std::string shard_file_name(DataSplit split, std::uint32_t shard);
/// Whether a name is one that `shard_file_name` makes.
[[nodiscard]] bool is_shard_file_name(std::string_view name);

/// The checksum that ends a shard, as text. Throws `Error` where the file is too short to have one.
[[nodiscard]] std::string shard_checksum(std::span<const std::byte> file, const std::string& path);

/// The header of a mapped file. Throws `Error` that names `path`: too short, another kind of file, another
/// version, damaged, numbers that the file's length does not bear out.
[[nodiscard]] ShardHeader shard_header_of(std::span<const std::byte> file, const std::string& path);

}  // namespace baleen
