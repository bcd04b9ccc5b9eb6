/// Which documents share a row. Documents in their order form groups of about kRowsPerGroup rows' worth of
/// tokens; in a group the longest goes first, each into the row that it fills best, so rows are full to about
/// a percent without a table of all rows: a group is packed again whenever one of its rows is read.
#pragma once

#include <cstdint>
#include <vector>

#include "training_data/token_shards.h"

namespace baleen {

/// Tokens [begin, end) of a document.
struct DocumentPiece {
  std::int64_t document = 0;
  std::int64_t begin = 0;
  std::int64_t end = 0;

  [[nodiscard]] std::int64_t size() const { return end - begin; }
  auto operator<=>(const DocumentPiece&) const = default;
};

class RowPacking {
 public:
  static constexpr std::int64_t kRowsPerGroup = 256;

  /// `shards` outlives it; sequence_length >= 2. Reads the length of every document; keeps 16 bytes a group.
  RowPacking(const TokenShards& shards, std::int64_t sequence_length);

  [[nodiscard]] std::int64_t sequence_length() const { return sequence_length_; }
  [[nodiscard]] std::int64_t num_rows() const { return groups_.back().first_row; }
  /// The pieces of a row in [0, num_rows()), at least one, in the order of documents; their sizes sum to at
  /// most sequence_length. A piece of one token, which has nothing to predict, is in no row.
  [[nodiscard]] std::vector<DocumentPiece> row(std::int64_t row) const;

 private:
  struct Group {
    std::int64_t first_document = 0;
    std::int64_t first_row = 0;
  };
  [[nodiscard]] std::vector<std::vector<DocumentPiece>> pack(std::int64_t begin, std::int64_t end) const;

  const TokenShards& shards_;
  std::int64_t sequence_length_;
  std::vector<Group> groups_;  ///< and one more, where the last ends
};

}  // namespace baleen
