/// A step's batch as kernels see it: the arrays of `RaggedBatch` in device memory, with one lookup per row.
///
/// A captured graph is replayed with other contents of the same arrays. So launches depend on num_rows and
/// num_sequences alone; positions, lengths and pages are read by the kernels. A graph's batch may be larger
/// than the step: the rows and sequences beyond are padding (position -1, no tokens). Padding rows may hold
/// any finite values, and no kernel writes cache rows, runs experts or reads history for them.
#pragma once

#include <cstdint>

#include "tensor/ragged_batch.h"

namespace baleen {

/// `SequenceSlice` on the device. Padding: num_tokens 0.
struct DeviceSequence {
  std::int32_t first_row;
  std::int32_t num_tokens;
  std::int32_t start;          ///< position of first_row
  std::int32_t window_begin;   ///< no window rows exist before this position
  std::int32_t entries_until;  ///< compressed entries and keys of positions below exist and are not written
  std::int32_t state_slot;
  bool sees_ahead;      ///< every row sees the sequence's last row of the batch too
  const PageId* pages;  ///< page p of the sequence: positions [256 p, 256 p + 256)
  const PageId* window_pages;
};

/// Of a slice that is whole, with its page tables where the device has them.
[[nodiscard]] inline DeviceSequence device_sequence(const SequenceSlice& slice, const PageId* pages,
                                                    const PageId* window_pages) {
  return {static_cast<std::int32_t>(slice.first_row),
          static_cast<std::int32_t>(slice.num_tokens),
          static_cast<std::int32_t>(slice.start),
          static_cast<std::int32_t>(slice.window_begin),
          static_cast<std::int32_t>(slice.entries_until),
          slice.state_slot,
          slice.sees_ahead,
          pages,
          window_pages};
}

struct DeviceBatch {
  const TokenId* tokens = nullptr;            ///< [num_rows]; padding 0
  const std::int32_t* positions = nullptr;    ///< [num_rows]; padding -1
  const std::int32_t* sequence_of = nullptr;  ///< [num_rows], index into `sequences`; padding 0
  const DeviceSequence* sequences = nullptr;  ///< [num_sequences]
  std::int32_t num_rows = 0;
  std::int32_t num_sequences = 0;
};

}  // namespace baleen
