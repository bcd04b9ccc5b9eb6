/// Which entries a step completes, and where they are stored.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "tensor/ragged_batch.h"

namespace baleen {

/// Entries that complete in this step and do not exist yet: [first_entry, end_entry) of each sequence.
inline std::int64_t end_entry(const SequenceSlice& slice, int ratio) {
  return (slice.start + slice.num_tokens) / ratio;
}
inline std::int64_t first_entry(const SequenceSlice& slice, int ratio) {
  return std::min(std::max(slice.start, slice.entries_until) / ratio, end_entry(slice, ratio));
}

/// A page of `Pool` and the row in it that an entry of a sequence is.
struct EntryPlace {
  std::byte* page = nullptr;
  int row = 0;
};
template <class Pool>
EntryPlace entry_place(const Pool& pool, const SequenceSlice& slice, std::int64_t entry) {
  const PageId page = slice.pages[static_cast<std::size_t>(entry / pool.rows_per_page)];
  return {pool.page(static_cast<std::int64_t>(page)), static_cast<int>(entry % pool.rows_per_page)};
}

/// The entry that row `row` of the batch, which is of `slice`, completes; -1: none, or one that exists
/// already.
inline std::int64_t entry_of_row(const SequenceSlice& slice, std::int64_t row, int ratio) {
  const std::int64_t end = slice.start + row - slice.first_row + 1;
  return end % ratio == 0 && end / ratio > first_entry(slice, ratio) ? end / ratio - 1 : -1;
}

}  // namespace baleen
