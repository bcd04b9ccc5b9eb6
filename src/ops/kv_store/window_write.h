/// Where a chunk's rows go in a sequence's window: how many, and in how many consecutive pieces.
#pragma once

#include <algorithm>
#include <cstdint>

#include "tensor/ragged_batch.h"

namespace baleen {

struct WindowWrite {
  std::int64_t rows = 0;
  std::int64_t pieces = 0;
  std::int64_t first_piece_rows = 0;  ///< the last rows of the page, or of the ring, that they begin in
};

/// Into pages of positions, as this cache keeps windows: every row, since a prefix that is shared later may
/// end at any.
[[nodiscard]] constexpr WindowWrite paged_window_write(std::int64_t start, std::int64_t num_tokens) {
  if (num_tokens == 0) return {};
  const std::int64_t end = start + num_tokens;
  return {num_tokens, (end - 1) / kPageTokens - start / kPageTokens + 1,
          std::min(num_tokens, kPageTokens - start % kPageTokens)};
}

/// Into a ring of `ring_rows` rows, as engines without shared prefixes keep them: the last rows only, in two
/// pieces where they wrap.
[[nodiscard]] constexpr WindowWrite ring_window_write(std::int64_t start, std::int64_t num_tokens,
                                                      std::int64_t ring_rows) {
  const std::int64_t rows = std::min(num_tokens, ring_rows);
  if (rows == 0) return {};
  const std::int64_t slot = (start + num_tokens - rows) % ring_rows;
  const std::int64_t first = std::min(rows, ring_rows - slot);
  return {rows, first < rows ? 2 : 1, first};
}

}  // namespace baleen
