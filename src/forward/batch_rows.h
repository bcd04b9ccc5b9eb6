/// Consecutive rows of a batch as a batch of their own: what ranks that share out rows attend with.
#pragma once

#include <vector>

#include "ops/collectives/collective.h"
#include "tensor/ragged_batch.h"

namespace baleen {

struct BatchPart {
  RaggedBatch batch;
  std::int64_t first_row = 0, first_slice = 0;  ///< where it begins in the whole one
};

/// Rows [range.begin, range.end) of `batch`: their slices, cut at both ends and numbered from row 0, at the
/// positions and in the pages that they have there. Rows behind the batch's last are padding of a device and
/// in no slice. `slices` gets them and outlives the result, as do the
/// arrays of `batch`. An empty range has no slices. O(slices), no allocation once `slices` has grown.
[[nodiscard]] BatchPart rows_of(const RaggedBatch& batch, RowRange range, std::vector<SequenceSlice>& slices);

}  // namespace baleen
