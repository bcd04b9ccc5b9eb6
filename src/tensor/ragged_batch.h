/// A step's batch: any mix of prefill chunks and single decode tokens of many sequences, laid end to end.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <span>

namespace baleen {

using TokenId = std::int32_t;

/// Number of a page in a pool. Negative: no page (never written, or freed behind the window).
enum class PageId : std::int32_t { kNone = -1 };

/// Consecutive positions of one sequence, page by page.
inline constexpr std::int64_t kPageTokens = 256;

/// Positions [begin, end) of a sequence.
struct PositionRange {
  std::int64_t begin = 0, end = 0;

  [[nodiscard]] std::int64_t size() const { return end - begin; }
};

/// One sequence's part of the batch: positions [start, start + num_tokens), rows [first_row, first_row +
/// num_tokens).
struct SequenceSlice {
  std::int64_t first_row = 0;
  std::int64_t num_tokens = 0;
  std::int64_t start = 0;
  /// Page p holds positions [256 p, 256 p + 256): compressed entries and indexer keys. Covers start +
  /// num_tokens.
  std::span<const PageId> pages;
  /// The same positions in the window pool; pages wholly behind the window are kNone.
  std::span<const PageId> window_pages;
  /// Which block of the compressor-state pool is this sequence's.
  std::int32_t state_slot = 0;
  /// No window rows exist before this position: it and later ones see the window from here on.
  std::int64_t window_begin = 0;
  /// Compressed entries and indexer keys of positions below exist already, and are others' too: they are not
  /// written. Whole pages.
  std::int64_t entries_until = 0;
  /// Every row sees the slice's last row too, and none sees further back than the first one does. In layers
  /// without compressed entries.
  bool sees_ahead = false;
  /// The sequence's tokens before `start`, or the last of them: what n-grams look back at.
  std::span<const TokenId> tokens_before{};
  /// Rows that a slice had before and behind these, where it was cut for ranks that share out a batch's rows.
  std::int64_t rows_before = 0, rows_behind = 0;

  /// Positions whose window rows the row at `position` sees.
  [[nodiscard]] PositionRange window_at(std::int64_t position, std::int64_t window_tokens) const {
    const std::int64_t first = start - rows_before, end = start + num_tokens + rows_behind;
    return sees_ahead ? PositionRange{std::max(window_begin, first - window_tokens), end}
                      : PositionRange{std::max(window_begin, position + 1 - window_tokens), position + 1};
  }
};

struct RaggedBatch {
  std::span<const TokenId> tokens;        ///< [num_rows]
  std::span<const SequenceSlice> slices;  ///< sorted by row, without gaps, each with at least one token

  [[nodiscard]] std::int64_t num_rows() const { return static_cast<std::int64_t>(tokens.size()); }
  /// The sequence of row `row`, which stands at position start + row - first_row of it.
  [[nodiscard]] const SequenceSlice& slice_of(std::int64_t row) const {
    const auto after =
        std::upper_bound(slices.begin(), slices.end(), row,
                         [](std::int64_t r, const SequenceSlice& slice) { return r < slice.first_row; });
    return *std::prev(after);
  }
};

}  // namespace baleen
