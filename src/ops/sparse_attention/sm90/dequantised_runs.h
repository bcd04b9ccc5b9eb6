/// Attention on tiles of any step: which of its rows read cache rows as they lie, and which read them
/// dequantised.
#pragma once

#include "ops/sparse_attention/sm90/attention_launch.h"
#include "tensor/ragged_batch.h"

namespace baleen::sm90 {

/// A step of a few rows, as graphs hold, is one launch of `attention_tiles`. A larger one, which is queued
/// anew each time, is cut by what the batch on the host says: sequences that read each of their rows several
/// times over, in runs that fit the scratch, are dequantised; the others' rows read theirs as they lie. The
/// bits are the same. `first_slice`: of the step's batch, the one that is the first of `batch`.
void attention_by_runs(const AttentionLaunch& launch, const RaggedBatch& batch, std::int64_t first_slice,
                       CudaContext& context);

/// For steps of up to `max_rows` rows of up to `max_sequences` sequences with up to `max_positions` positions
/// each.
[[nodiscard]] std::int64_t attention_by_runs_scratch_bytes(std::int64_t max_rows, std::int64_t max_sequences,
                                                           std::int64_t max_positions);

}  // namespace baleen::sm90
