/// A part of a step's batch, for operations of ranks that share out its rows.
#pragma once

#include "cuda/device_batch.h"

namespace baleen {

/// `count` rows from `first` on, of the same sequences: for what asks rows where they stand. A sequence's
/// `first_row` stays that of the whole batch.
[[nodiscard]] inline DeviceBatch rows_of(const DeviceBatch& batch, std::int64_t first, std::int64_t count) {
  DeviceBatch part = batch;
  part.tokens += first;
  part.positions += first;
  part.sequence_of += first;
  part.num_rows = static_cast<std::int32_t>(count);
  return part;
}

}  // namespace baleen
