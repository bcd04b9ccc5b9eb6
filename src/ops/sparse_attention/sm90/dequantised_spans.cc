#include <algorithm>

#include "base/check.h"
#include "cuda/device_batch_rows.h"
#include "ops/operation/operation.h"
#include "ops/sparse_attention/sm90/dequantised_rows.h"
#include "tensor/captured_rows.h"

namespace baleen::sm90 {
namespace {

/// 134 MB of scratch: the entries of half a million positions. More gain little, their rows come from memory.
constexpr std::int64_t kMaxDequantisedRows = std::int64_t{1} << 17;
/// What a read of a row by a query takes longer where the row lies in FP8, and what dequantising a row takes
/// before (584 bytes read, 1,024 written): on an H200 a prompt of 4,096 queries with 512 of 8,192 rows took
/// 860 and 533 us (docs/ops/sparse_attention.md), 0.155 ns a read.
constexpr double kDequantisingReadSeconds = 0.155e-9, kDequantisedRowSeconds = 0.62e-9;

/// What a sequence's queries may see.
struct VisibleRows {
  std::int64_t first_position, num_window, num_entries;

  VisibleRows(const AttentionLaunch& launch, const SequenceSlice& slice)
      : first_position(slice.window_at(slice.start, launch.window_tokens).begin),
        num_window(slice.window_at(slice.start + slice.num_tokens - 1, launch.window_tokens).end -
                   first_position),
        num_entries(launch.ratio == 0 ? 0 : (slice.start + slice.num_tokens) / launch.ratio) {}

  [[nodiscard]] std::int64_t count() const { return num_window + num_entries; }
};

/// Whether reading a sequence's rows as they lie is predicted to take longer than dequantising them before.
bool worth_dequantising(const AttentionLaunch& launch, const SequenceSlice& slice) {
  const VisibleRows rows(launch, slice);
  const std::int64_t window = slice.sees_ahead ? rows.num_window : launch.window_tokens;
  const std::int64_t listed = window + (launch.selects ? launch.top_k : rows.num_entries);
  if (rows.count() > kMaxDequantisedRows) return false;
  const double as_they_lie = kDequantisingReadSeconds * static_cast<double>(slice.num_tokens * listed);
  return kDequantisedRowSeconds * static_cast<double>(rows.count()) <= as_they_lie;
}

/// The same attention for `num_rows` rows from `first` on.
AttentionLaunch rows_of(const AttentionLaunch& launch, std::int64_t first, std::int64_t num_rows) {
  AttentionLaunch part = launch;
  part.batch = rows_of(launch.batch, first, num_rows);
  part.num_rows = static_cast<int>(num_rows);
  if (launch.selects) part.selected += first * launch.selected_stride;
  part.q += first * launch.q_row_stride;
  part.out += first * launch.out_row_stride;
  part.cosine += first * launch.angle_stride;
  part.sine += first * launch.angle_stride;
  return part;
}

/// Slices from `first` on, by its number in the step's batch, that are dequantised together.
class SpanBuilder {
 public:
  SpanBuilder(const AttentionLaunch& launch, std::int64_t first) : launch_(launch) {
    span_.first_sequence = static_cast<std::int32_t>(first);
  }

  bool add(const SequenceSlice& slice) {
    const VisibleRows rows(launch_, slice);
    if (span_.num_sequences == DequantisedSpan::kMaxSequences ||
        num_rows_ + rows.count() > kMaxDequantisedRows)
      return false;
    span_.sequences[span_.num_sequences++] = {
        static_cast<std::int32_t>(rows.first_position), static_cast<std::int32_t>(rows.num_window),
        static_cast<std::int32_t>(num_rows_), static_cast<std::int32_t>(rows.num_entries),
        static_cast<std::int32_t>(num_rows_ + rows.num_window)};
    num_rows_ += rows.count();
    return true;
  }

  void attend(const AttentionLaunch& launch, CudaContext& context) {
    const ScratchScope scope(context.scratch);
    span_.rows = context.scratch.allocate<Bf16Bits>(num_rows_ * kTilesWidth);
    span_.queries = context.scratch.allocate<DequantisedQuery>(launch.num_rows);
    dequantise_rows(launch, span_, context);
    attend_dequantised(launch, span_, context);
  }

 private:
  const AttentionLaunch& launch_;
  DequantisedSpan span_{};
  std::int64_t num_rows_ = 0;
};

}  // namespace

void attention_by_spans(const AttentionLaunch& launch, const RaggedBatch& batch, std::int64_t first_slice,
                        CudaContext& context) {
  if (launch.num_rows <= kMaxGraphRows) {
    attention_tiles(launch, context);
    return;
  }
  BALEEN_CHECK_EQ(batch.num_rows(), launch.num_rows);
  const auto num_slices = static_cast<std::int64_t>(batch.slices.size());
  for (std::int64_t first = 0; first < num_slices;) {
    const auto slice = [&](std::int64_t i) -> const SequenceSlice& {
      return batch.slices[static_cast<std::size_t>(i)];
    };
    const bool dequantised = worth_dequantising(launch, slice(first));
    SpanBuilder span(launch, first_slice + first);
    std::int64_t end = first;
    while (end < num_slices && worth_dequantising(launch, slice(end)) == dequantised &&
           (!dequantised || span.add(slice(end)))) {
      ++end;
    }
    const std::int64_t first_row = slice(first).first_row;
    const std::int64_t end_row = slice(end - 1).first_row + slice(end - 1).num_tokens;
    const AttentionLaunch part = rows_of(launch, first_row, end_row - first_row);
    if (dequantised) {
      span.attend(part, context);
    } else {
      attention_tiles(part, context);
    }
    first = end;
  }
}

std::int64_t attention_by_spans_scratch_bytes(std::int64_t max_rows, std::int64_t max_sequences,
                                              std::int64_t max_positions) {
  if (max_rows <= kMaxGraphRows) return attention_tiles_scratch_bytes();
  constexpr std::int64_t kSmallestRatio = 1, kLargestWindow = 128;
  const std::int64_t most_sequences = std::min<std::int64_t>(max_sequences, DequantisedSpan::kMaxSequences);
  const std::int64_t num_rows = std::min(
      kMaxDequantisedRows, max_rows + most_sequences * (kLargestWindow + max_positions / kSmallestRatio));
  return std::max(attention_tiles_scratch_bytes(), Arena::bytes_for<Bf16Bits>(num_rows * kTilesWidth) +
                                                       Arena::bytes_for<DequantisedQuery>(max_rows));
}

}  // namespace baleen::sm90
