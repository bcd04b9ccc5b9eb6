/// Cache rows dequantised to BF16 once for the many queries that read them.
///
/// A prompt's queries read a row tens of times over, and bringing its codes to BF16 each time costs more than
/// the products.
/// So where a span of sequences has many rows in the step, a kernel writes every cache row that they may see
/// to scratch, 512 BF16 values each, and resolves each query's list: from then on a row is a number.
#pragma once

#include <cstdint>

#include "ops/sparse_attention/sm90/attention_tiles.h"

namespace baleen::sm90 {

/// A sequence's rows in scratch: of the window from position `first_position` on, and its compressed entries
/// from 0 on.
struct DequantisedSequence {
  std::int32_t first_position, num_window_rows;
  std::int32_t first_window_row;  ///< where window rows begin in scratch
  std::int32_t num_entries;
  std::int32_t first_entry_row;
};

/// A query's list: window rows first_window_row .., then entries, numbered from first_entry_row on.
struct alignas(16) DequantisedQuery {
  std::int32_t num_window;
  std::int32_t size;
  std::int32_t first_window_row;
  std::int32_t first_entry_row;
};

/// Consecutive sequences of the batch, few enough for a kernel's arguments; query 0 is the first row of the
/// first.
struct DequantisedSpan {
  static constexpr int kMaxSequences = 32;

  Bf16Bits* rows;  ///< [.][kTilesWidth]
  DequantisedQuery* queries;
  std::int32_t first_sequence, num_sequences;
  DequantisedSequence sequences[kMaxSequences];
};

/// Fills `span.rows` and `span.queries`. `launch` covers the span's rows alone.
void dequantise_rows(const AttentionLaunch& launch, const DequantisedSpan& span, CudaContext& context);

/// Attention of the span's rows, after `dequantise_rows`.
void attend_dequantised(const AttentionLaunch& launch, const DequantisedSpan& span, CudaContext& context);

}  // namespace baleen::sm90
