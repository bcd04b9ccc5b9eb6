/// Which two neighbouring tokens merge, into what, and how early: a flat hash table from a pair to its rule.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

#include "tensor/ragged_batch.h"
#include "tokenizer/tokenizer_json.h"
#include "tokenizer/vocabulary.h"

namespace baleen {

/// Immutable once built. 16 bytes a slot and at most half of them used: 4 MB for 128 thousand merges, so a
/// lookup is usually one cache line from L2 or L3. It is the memory access that encoding waits for.
class MergeTable {
 public:
  using Rank = std::uint32_t;
  static constexpr Rank kNoRank = std::numeric_limits<Rank>::max();

  struct Merge {
    Rank rank = kNoRank;  ///< lower merges first; kNoRank: this pair never merges
    TokenId merged = 0;
  };

  /// Throws `Error` when a rule names an unknown token or repeats a pair, or one of the 256 bytes has no
  /// token. `name` is what sentences call the file.
  MergeTable(const TokenIndex& ids, const std::vector<MergeRule>& rules, std::string_view name);

  [[nodiscard]] Merge find(TokenId left, TokenId right) const {
    const std::uint64_t key = key_of(left, right);
    for (std::size_t slot = slot_of(key);; slot = (slot + 1) & (slots_.size() - 1)) {
      if (slots_[slot].key == key) return slots_[slot].merge;
      if (slots_[slot].key == kEmpty) return {};
    }
  }

  /// The token of a single byte: where every merge begins.
  [[nodiscard]] TokenId token_of_byte(std::uint8_t byte) const { return token_of_byte_[byte]; }

 private:
  static constexpr std::uint64_t kEmpty = ~std::uint64_t{0};  // no pair has it: ids are not negative

  struct Slot {
    std::uint64_t key = kEmpty;
    Merge merge;
  };

  [[nodiscard]] static std::uint64_t key_of(TokenId left, TokenId right) {
    return (static_cast<std::uint64_t>(left) << 32) | static_cast<std::uint32_t>(right);
  }
  /// Multiplicative hashing: the high bits of the product depend on every bit of the key.
  [[nodiscard]] std::size_t slot_of(std::uint64_t key) const { return (key * 0x9E3779B97F4A7C15u) >> shift_; }
  /// False when the pair is there already.
  bool insert(TokenId left, TokenId right, Merge merge);

  std::vector<Slot> slots_;  ///< a power of two of them, at least one empty
  int shift_ = 0;
  std::array<TokenId, 256> token_of_byte_{};
};

}  // namespace baleen
