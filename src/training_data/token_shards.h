/// The packed tokens of one split, as `baleen data pack` wrote them: shard files mapped into memory, checked
/// when they are opened.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "tensor/ragged_batch.h"
#include "training_data/shard_format.h"

namespace baleen {

/// How much of a shard is read when it is opened.
enum class ShardCheck : std::uint8_t {
  kHeader,    ///< header, sizes, document bounds; tokens are checked as they are read
  kContents,  ///< the checksum over every byte too
};

class TokenShards {
 public:
  /// All shards of a split in `folder`, in order. Throws `Error`: no such folder or split, a shard missing,
  /// cut short, damaged, of another version or of another tokenizer than the rest; a file that was packed
  /// (packed_files.h) missing or changed.
  static TokenShards open(const std::filesystem::path& folder, DataSplit split,
                          ShardCheck check = ShardCheck::kHeader);

  /// Whether `folder` has a split, or had it when it was packed.
  [[nodiscard]] static bool has(const std::filesystem::path& folder, DataSplit split);

  /// Reads every byte of shard `shard` and compares its checksum. Throws `Error`.
  void check_contents(std::size_t shard) const;

  [[nodiscard]] std::int64_t num_documents() const { return totals_.num_documents; }
  [[nodiscard]] std::int64_t num_tokens() const { return totals_.num_tokens; }
  /// Tokens that training predicts; the first token of a document is none.
  [[nodiscard]] std::int64_t num_targets() const { return totals_.num_targets; }
  /// Bytes of UTF-8 that the tokens stand for.
  [[nodiscard]] std::int64_t num_text_bytes() const { return totals_.num_text_bytes; }
  /// Ids of the tokenizer that wrote them are below.
  [[nodiscard]] std::int64_t vocab_size() const { return vocab_size_; }
  /// XXH3-128 of the tokenizer.json that lies beside the shards.
  [[nodiscard]] const TokenizerHash& tokenizer_hash() const { return tokenizer_hash_; }

  /// Tokens of document `document` in [0, num_documents).
  [[nodiscard]] std::int64_t document_size(std::int64_t document) const;
  /// Copies tokens [begin, begin + tokens.size()) of the document, and into `is_target`, of the same size, 1
  /// where training predicts the token. Throws `Error` where the file holds an id beyond the vocabulary.
  void read(std::int64_t document, std::int64_t begin, std::span<TokenId> tokens,
            std::span<std::uint8_t> is_target) const;
  /// The targets among tokens [begin, end) of the document.
  [[nodiscard]] std::int64_t count_targets(std::int64_t document, std::int64_t begin, std::int64_t end) const;

  [[nodiscard]] std::span<const ShardHeader> shards() const { return headers_; }
  /// Of all shards: equal ones have the same documents in the same order.
  [[nodiscard]] std::string checksum() const;
  /// Whether the folder lists what was packed, so that a missing file is noticed; earlier versions
  /// wrote none.
  [[nodiscard]] bool are_listed() const { return are_listed_; }

 private:
  struct Place;
  [[nodiscard]] Place place_of(std::int64_t document) const;

  std::vector<MappedFile> files_;
  std::vector<ShardHeader> headers_;          ///< one a file
  std::vector<std::int64_t> first_document_;  ///< one a file, and the total
  ShardTotals totals_;
  std::int64_t vocab_size_ = 0;
  TokenizerHash tokenizer_hash_{};
  bool are_listed_ = false;
};

}  // namespace baleen
