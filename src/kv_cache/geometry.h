/// Every byte of the cache, from the geometry of a model alone.               (source: cache specification,
/// design 5)
///
/// A page is 256 consecutive positions of one sequence. At one page number it owns, in every ratio-4 layer,
/// 64 latent rows and 64 indexer keys, and in every ratio-128 layer 2 latent rows. Raw KV lives in pages of a
/// pool of its own (256 rows in every block), freed behind the window; such a window page also owns the
/// compressor rows that whoever goes on after its last position needs. Unfinished compressor rows live in one
/// slot per sequence.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "numeric/grouped_row.h"
#include "numeric/index_key.h"
#include "numeric/latent_row.h"
#include "tensor/ragged_batch.h"

namespace baleen {

/// What a block keeps of a sequence beside its window rows.
struct BlockCache {
  int ratio = 0;                     ///< positions of a compressed entry; 0: no entries
  bool overlaps = false;             ///< an entry is pooled from the positions of the one before it too
  bool has_index_keys = false;       ///< a key beside every entry
  bool keys_are_of_entries = false;  ///< made of the entries themselves: nothing of them is pooled

  /// Whether entries are pooled from several positions, so that unfinished ones need rings.
  [[nodiscard]] bool compresses() const { return ratio > 1; }
};

struct CacheGeometry {
  std::vector<BlockCache> blocks;  ///< those of a draft head last
  LatentFormat latent;
  /// What rows in released precision are instead of `latent`: those of positions, those of entries.
  std::optional<GroupedRow> window_row, entry_row;
  IndexKeyFormat index_key;
  std::int64_t window_tokens = 128;
  /// Positions a speculative step may have to take back; lengthens the compressor rings.
  std::int64_t max_draft_tokens = 0;
  /// Sequences keep the window rows of their last whole page, so that others can go on after it.
  bool shares_prefixes = false;

  [[nodiscard]] std::int64_t num_blocks() const { return static_cast<std::int64_t>(blocks.size()); }
  [[nodiscard]] const BlockCache& block(std::int64_t block) const {
    return blocks[static_cast<std::size_t>(block)];
  }

  /// Entries of `block` in a page: 64, 2, or 0 in the released models.
  [[nodiscard]] int entries_per_page(std::int64_t block) const {
    return this->block(block).ratio == 0 ? 0 : static_cast<int>(kPageTokens / this->block(block).ratio);
  }
  /// Rows a compressor ring keeps: those of the open entry, of the one before it where entries overlap, and
  /// what may be taken back.
  [[nodiscard]] std::int64_t ring_rows(std::int64_t block) const;
  /// Floats of the kv (or gate) part of one ring row.
  [[nodiscard]] std::int64_t main_state_width(std::int64_t block) const {
    return this->block(block).overlaps ? 2 * latent.width() : latent.width();
  }
  [[nodiscard]] std::int64_t index_state_width(std::int64_t block) const {
    return this->block(block).overlaps ? std::int64_t{2} * index_key.dim : index_key.dim;
  }

  [[nodiscard]] std::int64_t page_bytes() const;         ///< compressed entries and keys, all blocks
  [[nodiscard]] std::int64_t window_page_bytes() const;  ///< raw KV and overlap rows, all blocks
  /// Compressor rows of a window page's last positions, one block's.
  [[nodiscard]] std::int64_t overlap_bytes(std::int64_t block) const;
  [[nodiscard]] std::int64_t state_slot_bytes() const;               ///< compressor rings of one sequence
  [[nodiscard]] std::int64_t state_bytes(std::int64_t block) const;  ///< the part of one block
  /// Rows of positions, and of entries, as their pools have them.
  [[nodiscard]] LatentFormat window_format() const { return row_format(window_row); }
  [[nodiscard]] LatentFormat entry_format() const { return row_format(entry_row); }
  [[nodiscard]] std::int64_t window_row_bytes() const { return window_format().row_bytes(); }
  [[nodiscard]] std::int64_t entry_row_bytes() const { return entry_format().row_bytes(); }
  /// Whether the indexer's compressor has rings of its own.
  [[nodiscard]] bool pools_keys(std::int64_t block) const {
    const BlockCache& kept = this->block(block);
    return kept.compresses() && kept.has_index_keys && !kept.keys_are_of_entries;
  }
  /// Bytes of rows that a position adds to a long sequence. Page strides round up: memory sees page_bytes() /
  /// 256.
  [[nodiscard]] double bytes_per_token() const;
  /// Raw KV rows that a query of one block may read.
  [[nodiscard]] std::int64_t window_bytes() const { return window_tokens * window_row_bytes(); }

  /// Positions before a sequence's next one whose window rows are in use: what it sees, or a draft head's
  /// row of the position before it, also after a step was taken back.
  [[nodiscard]] std::int64_t visible_tokens() const { return window_tokens + max_draft_tokens; }
  /// Those that a sequence keeps. The last whole page begins less than two pages before the next position.
  [[nodiscard]] std::int64_t kept_tokens() const;

 private:
  [[nodiscard]] LatentFormat row_format(const std::optional<GroupedRow>& grouped) const {
    LatentFormat format = latent;
    format.grouped = grouped;
    return format;
  }
};

[[nodiscard]] constexpr std::int64_t pages_for(std::int64_t num_positions) {
  return (num_positions + kPageTokens - 1) / kPageTokens;
}

/// Window pages that `num_sequences` sequences hold at most, between steps and during one of
/// `max_step_tokens` tokens over all of them, in the worst alignment. A sequence holds kept_tokens() before
/// its next position and its tokens in the step; n positions touch (n - 2) / 256 + 2 pages at most.
[[nodiscard]] std::int64_t max_window_pages(const CacheGeometry& geometry, std::int64_t num_sequences,
                                            std::int64_t max_step_tokens);

}  // namespace baleen
