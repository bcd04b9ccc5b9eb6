#include "forward/batch_rows.h"

#include <algorithm>

#include "base/check.h"

namespace baleen {

BatchPart rows_of(const RaggedBatch& batch, RowRange range, std::vector<SequenceSlice>& slices) {
  BALEEN_CHECK(range.begin >= 0 && range.begin <= range.end);
  slices.clear();
  std::int64_t first_slice = 0;
  for (const SequenceSlice& whole : batch.slices) {
    const std::int64_t begin = std::max(range.begin, whole.first_row);
    const std::int64_t end = std::min(range.end, whole.first_row + whole.num_tokens);
    if (whole.first_row + whole.num_tokens <= range.begin) ++first_slice;
    if (begin >= end) continue;
    SequenceSlice& part = slices.emplace_back(whole);
    part.first_row = begin - range.begin;
    part.num_tokens = end - begin;
    part.start += begin - whole.first_row;
    part.rows_before += begin - whole.first_row;
    part.rows_behind += whole.first_row + whole.num_tokens - end;
  }
  const std::int64_t begin = std::min(range.begin, batch.num_rows());
  const std::int64_t count = std::min(range.end, batch.num_rows()) - begin;
  return {.batch = {.tokens = batch.tokens.subspan(static_cast<std::size_t>(begin),
                                                   static_cast<std::size_t>(count)),
                    .slices = slices},
          .first_row = range.begin,
          .first_slice = first_slice};
}

}  // namespace baleen
