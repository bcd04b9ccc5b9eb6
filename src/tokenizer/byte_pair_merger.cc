#include "tokenizer/byte_pair_merger.h"

#include <algorithm>
#include <array>
#include <functional>

#include "base/work_budget.h"

namespace baleen {
namespace {

/// Words of prose have 3 to 12 bytes. From about a hundred bytes on, the heap is faster than scanning all
/// neighbours for each merge.
constexpr std::size_t kShortPiece = 96;

/// Of a byte in a heap of some thousands.
constexpr std::int64_t kWorkPerLongByte = 12;

}  // namespace

void BytePairMerger::merge(std::string_view piece, std::vector<TokenId>& ids) {
  if (piece.size() <= kShortPiece) {
    merge_short(piece, ids);
  } else {
    merge_long(piece, ids);
  }
}

void BytePairMerger::merge_short(std::string_view piece, std::vector<TokenId>& ids) const {
  std::array<TokenId, kShortPiece> tokens;
  std::array<MergeTable::Rank, kShortPiece> ranks;  // of tokens[i] with tokens[i + 1]
  std::array<TokenId, kShortPiece> merged;
  const auto look_up = [&](std::size_t i) {
    const MergeTable::Merge merge = table_.find(tokens[i], tokens[i + 1]);
    ranks[i] = merge.rank;
    merged[i] = merge.merged;
  };
  std::size_t size = piece.size();
  for (std::size_t i = 0; i < size; ++i)
    tokens[i] = table_.token_of_byte(static_cast<std::uint8_t>(piece[i]));
  for (std::size_t i = 0; i + 1 < size; ++i) look_up(i);
  while (size > 1) {
    const auto lowest = std::min_element(ranks.begin(), ranks.begin() + (size - 1));
    if (*lowest == MergeTable::kNoRank) break;
    const auto at = static_cast<std::size_t>(lowest - ranks.begin());
    tokens[at] = merged[at];
    --size;
    std::copy(tokens.begin() + at + 2, tokens.begin() + size + 1, tokens.begin() + at + 1);
    if (at + 1 < size) {
      std::copy(ranks.begin() + at + 2, ranks.begin() + size, ranks.begin() + at + 1);
      std::copy(merged.begin() + at + 2, merged.begin() + size, merged.begin() + at + 1);
      look_up(at);
    }
    if (at > 0) look_up(at - 1);
  }
  ids.insert(ids.end(), tokens.begin(), tokens.begin() + size);
}

void BytePairMerger::merge_long(std::string_view piece, std::vector<TokenId>& ids) {
  const auto end = static_cast<std::uint32_t>(piece.size());
  const auto entry = [&](std::uint32_t place) {
    return (static_cast<std::uint64_t>(symbols_[place].with_next.rank) << 32) | place;
  };
  const auto look_up = [&](std::uint32_t place) {
    Symbol& symbol = symbols_[place];
    symbol.with_next =
        symbol.next == end ? MergeTable::Merge{} : table_.find(symbol.id, symbols_[symbol.next].id);
    return symbol.with_next.rank != MergeTable::kNoRank;
  };
  const auto push = [&](std::uint32_t place) {
    if (!look_up(place)) return;
    heap_.push_back(entry(place));
    std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
  };

  spend_work(kWorkPerLongByte * end);
  symbols_.resize(end);
  heap_.clear();
  for (std::uint32_t place = 0; place < end; ++place) {
    symbols_[place] = {
        table_.token_of_byte(static_cast<std::uint8_t>(piece[place])), place - 1, place + 1, {}};
  }
  for (std::uint32_t place = 0; place < end; ++place) {
    if (look_up(place)) heap_.push_back(entry(place));
  }
  std::make_heap(heap_.begin(), heap_.end(), std::greater<>());

  while (!heap_.empty()) {
    const std::uint64_t top = heap_.front();
    std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
    heap_.pop_back();
    const auto place = static_cast<std::uint32_t>(top);
    if (top != entry(place)) continue;  // one of the two was merged with another neighbour since
    Symbol& left = symbols_[place];
    Symbol& right = symbols_[left.next];
    left.id = left.with_next.merged;
    left.next = right.next;
    right.with_next = {};
    if (left.next != end) symbols_[left.next].previous = place;
    push(place);
    if (place > 0) push(left.previous);
  }
  for (std::uint32_t place = 0; place < end; place = symbols_[place].next) ids.push_back(symbols_[place].id);
}

}  // namespace baleen
