#include "tokenizer/merge_table.h"

#include <bit>
#include <string>

#include "base/error.h"
#include "base/quoted_text.h"
#include "tokenizer/byte_level.h"

namespace baleen {

MergeTable::MergeTable(const TokenIndex& ids, const std::vector<MergeRule>& rules, std::string_view name) {
  for (int byte = 0; byte < 256; ++byte) {
    const std::string character = byte_level_character(static_cast<std::uint8_t>(byte));
    const auto found = ids.find(character);
    if (found == ids.end()) {
      fail("{}: model.vocab has no {}, the token of byte 0x{:02X}; a byte-level vocabulary holds all 256",
           name, quoted_text(character), byte);
    }
    token_of_byte_[byte] = found->second;
  }

  slots_.resize(std::bit_ceil(2 * rules.size() + 2));
  shift_ = 64 - std::countr_zero(slots_.size());
  for (std::size_t rank = 0; rank < rules.size(); ++rank) {
    const std::string_view merged = rules[rank].merged;
    const std::string_view left = merged.substr(0, rules[rank].left_size);
    const std::string_view right = merged.substr(rules[rank].left_size);
    const auto id_of = [&](std::string_view token) {
      const auto found = ids.find(token);
      if (found == ids.end()) {
        fail("{}: model.merges[{}] joins {} and {}, but {} is not in model.vocab", name, rank,
             quoted_text(left), quoted_text(right), quoted_text(token));
      }
      return found->second;
    };
    const TokenId left_id = id_of(left);
    const TokenId right_id = id_of(right);
    if (!insert(left_id, right_id, {static_cast<Rank>(rank), id_of(merged)})) {
      fail("{}: model.merges[{}] repeats the pair {} and {}", name, rank, quoted_text(left),
           quoted_text(right));
    }
  }
}

bool MergeTable::insert(TokenId left, TokenId right, Merge merge) {
  const std::uint64_t key = key_of(left, right);
  std::size_t slot = slot_of(key);
  while (slots_[slot].key != kEmpty) {
    if (slots_[slot].key == key) return false;
    slot = (slot + 1) & (slots_.size() - 1);
  }
  slots_[slot] = {key, merge};
  return true;
}

}  // namespace baleen
