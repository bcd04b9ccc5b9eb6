/// Remembers, during one call of encode, which tokens a piece became when it occurred before. Prose repeats
/// its words: most pieces are answered here instead of being merged anew.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "tensor/ragged_batch.h"

namespace baleen {

/// A direct-mapped table: a new piece displaces whatever had its slot, so memory is bounded. Entries point
/// into the call's own text and result and copy neither. As it belongs to one call, threads share nothing.
class WordCache {
 public:
  /// Sized for a text of so many bytes: small for a short prompt, where clearing a large one would cost more
  /// than it brings; at most 192 KiB, which stays in L2.
  explicit WordCache(std::size_t text_size)
      : slots_(std::bit_ceil(std::clamp<std::size_t>(text_size / 16, 16, kMaxSlots))) {}

  /// Appends to `ids` the tokens that `piece` became before. If it did not occur, calls `encode(piece, ids)`,
  /// which appends them. `ids` must be the same vector in every call, and only ever grow.
  template <class Encode>
  void append(std::string_view piece, std::vector<TokenId>& ids, Encode&& encode) {
    Slot& slot = slots_[std::hash<std::string_view>()(piece) & (slots_.size() - 1)];
    const std::size_t begin = ids.size();
    if (slot.piece == piece) {
      ids.resize(begin + slot.count);
      std::copy_n(ids.begin() + slot.begin, slot.count, ids.begin() + begin);
      return;
    }
    encode(piece, ids);
    slot = {piece, static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(ids.size() - begin)};
  }

 private:
  static constexpr std::size_t kMaxSlots = 8192;

  struct Slot {
    std::string_view piece;   ///< a stretch of the text; empty: not used yet
    std::uint32_t begin = 0;  ///< where its tokens begin in the result
    std::uint32_t count = 0;
  };

  std::vector<Slot> slots_;
};

}  // namespace baleen
