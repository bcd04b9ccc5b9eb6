/// Attention on the tensor cores: rows of 448 + 64 values, what the released models run.
#pragma once

#include "ops/sparse_attention/cuda/attention_launch.h"

namespace baleen::sm90 {

/// Rows of 448 + 64 values, all addresses on 16 bytes.
void attention_tiles(const AttentionLaunch& launch, CudaContext& context);
[[nodiscard]] std::int64_t attention_tiles_scratch_bytes();

/// A step of a few rows, as graphs hold, is one launch of `attention_tiles`. A larger one, which is queued
/// anew each time, is cut by what the batch on the host says: sequences that read each of their rows several
/// times over, in spans of sequences that fit the scratch, are dequantised; the others' rows read theirs as
/// they lie. The bits are the same. `first_slice`: of the step's batch, the one that is the first of `batch`.
void attention_by_spans(const AttentionLaunch& launch, const RaggedBatch& batch, std::int64_t first_slice,
                        CudaContext& context);

/// For steps of up to `max_rows` rows of up to `max_sequences` sequences with up to `max_positions` positions
/// each.
[[nodiscard]] std::int64_t attention_by_spans_scratch_bytes(std::int64_t max_rows, std::int64_t max_sequences,
                                                            std::int64_t max_positions);

}  // namespace baleen::sm90
