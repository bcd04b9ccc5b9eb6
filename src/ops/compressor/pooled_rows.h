/// Which rows a compressed entry is pooled from.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "ops/compressor/compressor.h"
#include "ops/compressor/step_entries.h"

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

/// Whether the row of `position` is carried to the next page.
inline bool is_overlap(std::int64_t position) { return position % kPageTokens >= kPageTokens - kOverlapRows; }
/// How many of the positions before `end` are.
inline std::int64_t num_overlap_rows(std::int64_t end) {
  return end / kPageTokens * kOverlapRows +
         std::max<std::int64_t>(0, end % kPageTokens - (kPageTokens - kOverlapRows));
}

}  // namespace baleen
