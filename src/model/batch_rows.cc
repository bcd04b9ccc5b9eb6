#include "model/batch_rows.h"

#include <algorithm>

#include "base/check.h"

namespace baleen {

RaggedBatch rows_of(const RaggedBatch& batch, RowRange range, std::vector<SequenceSlice>& slices) {
  BALEEN_CHECK(range.begin >= 0 && range.begin <= range.end && range.end <= batch.num_rows());
  slices.clear();
  for (const SequenceSlice& whole : batch.slices) {
    const std::int64_t begin = std::max(range.begin, whole.first_row);
    const std::int64_t end = std::min(range.end, whole.first_row + whole.num_tokens);
    if (begin >= end) continue;
    SequenceSlice& part = slices.emplace_back(whole);
    part.first_row = begin - range.begin;
    part.num_tokens = end - begin;
    part.start += begin - whole.first_row;
  }
  return {.tokens = batch.tokens.subspan(static_cast<std::size_t>(range.begin),
                                         static_cast<std::size_t>(range.size())),
          .slices = slices};
}

}  // namespace baleen
