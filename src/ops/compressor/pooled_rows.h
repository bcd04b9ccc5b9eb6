/// Which rows a compressed entry is pooled from, and where it is stored.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "ops/compressor/compressor.h"

namespace baleen {

inline constexpr int kMaxPooledRows = 128;

/// Pointers to h values each. Positions of this step are read from its own rows, earlier ones from the ring,
/// and those before the sequence are left out, whatever the ring's memory holds.
struct PooledRows {
  std::array<const float*, kMaxPooledRows> kv;
  std::array<const float*, kMaxPooledRows> gate;
  int count = 0;

  PooledRows(const CompressorArgs& args, const SequenceSlice& slice, std::int64_t entry) {
    const auto head_dim = static_cast<std::int64_t>(args.norm_weight.size());
    const std::int64_t begin = entry * args.ratio;
    const bool overlap = args.state.width == 2 * head_dim;
    if (overlap && entry > 0) add(args, slice, begin - args.ratio, 0);
    add(args, slice, begin, overlap ? head_dim : 0);
  }

 private:
  void add(const CompressorArgs& args, const SequenceSlice& slice, std::int64_t begin, std::int64_t column) {
    for (std::int64_t position = begin; position < begin + args.ratio; ++position, ++count) {
      const std::int64_t row = slice.first_row + position - slice.start;
      const auto at = static_cast<std::size_t>(count);
      const bool stored = position < slice.start;
      kv[at] = (stored ? args.state.kv_row(slice.state_slot, position) : args.kv.row(row).data()) + column;
      gate[at] =
          (stored ? args.state.gate_row(slice.state_slot, position) : args.gate.row(row).data()) + column;
    }
  }
};

/// Entries that complete in this step and do not exist yet: [first_entry, end_entry) of each sequence.
inline std::int64_t end_entry(const SequenceSlice& slice, int ratio) {
  return (slice.start + slice.num_tokens) / ratio;
}
inline std::int64_t first_entry(const SequenceSlice& slice, int ratio) {
  return std::min(std::max(slice.start, slice.entries_until) / ratio, end_entry(slice, ratio));
}

/// Whether the row of `position` is carried to the next page.
inline bool is_overlap(std::int64_t position) { return position % kPageTokens >= kPageTokens - kOverlapRows; }
/// How many of the positions before `end` are.
inline std::int64_t num_overlap_rows(std::int64_t end) {
  return end / kPageTokens * kOverlapRows +
         std::max<std::int64_t>(0, end % kPageTokens - (kPageTokens - kOverlapRows));
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

}  // namespace baleen
