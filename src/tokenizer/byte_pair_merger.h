/// Byte-pair encoding of one piece: start from its bytes, and merge the neighbours of lowest rank, leftmost
/// first, until no two neighbours merge.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "tokenizer/merge_table.h"

namespace baleen {

/// Holds scratch memory, so one for each thread that encodes. The table outlives it.
class BytePairMerger {
 public:
  explicit BytePairMerger(const MergeTable& table) : table_(table) {}

  /// Appends the tokens of `piece` to `ids`. O(n^2) with a tiny constant for short pieces, O(n log n) for
  /// long ones. At most 2^31 bytes.
  void merge(std::string_view piece, std::vector<TokenId>& ids);

 private:
  void merge_short(std::string_view piece, std::vector<TokenId>& ids) const;
  void merge_long(std::string_view piece, std::vector<TokenId>& ids);

  /// A token of a long piece: where it begins is its place in `symbols_`, so order by place is order in the
  /// text.
  struct Symbol {
    TokenId id = 0;
    std::uint32_t previous = 0;
    std::uint32_t next = 0;
    MergeTable::Merge with_next;  ///< kNoRank also for symbols that were merged away
  };

  const MergeTable& table_;
  std::vector<Symbol> symbols_;
  std::vector<std::uint64_t> heap_;  ///< rank << 32 | place, smallest on top; some are out of date
};

}  // namespace baleen
