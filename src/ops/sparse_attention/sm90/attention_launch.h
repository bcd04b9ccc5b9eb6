/// Arguments of the kernels of attention, and the two that there are.
///
///     attention_tiles   rows of 448 + 64 values on the tensor cores: what the released models run
///     attention_any     every other geometry, plain loops: small models, and V3.2's rows
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/cuda_context.h"
#include "numeric/bf16.h"
#include "numeric/latent_row.h"
#include "tensor/ragged_batch.h"

namespace baleen::sm90 {

inline constexpr int kRunEntries = 64;  ///< runs are cut from the start of the list

/// A `LatentPool` of `released` rows as kernels see it.
struct RowPool {
  const std::byte* base;
  std::int64_t page_stride_bytes;
  int rows_shift;  ///< rows a page: 1 << rows_shift
};

struct AttentionLaunch {
  DeviceBatch batch;
  RowPool window;
  RowPool compressed;
  int ratio;
  const std::int32_t* selected;  ///< [T, top_k]
  std::int64_t selected_stride;
  int top_k;
  int window_tokens;

  const Bf16Bits* q;  ///< [T, heads, nope + rope]
  std::int64_t q_row_stride, q_head_stride;
  Bf16Bits* out;
  std::int64_t out_row_stride, out_head_stride;
  const float* sink;
  float scale_log2;     ///< softmax's scale times log2(e): exponentials are powers of two
  const float* cosine;  ///< [T, rope / 2]; null: values are not rotated
  const float* sine;
  std::int64_t angle_stride;

  int num_rows, num_heads;
  int nope, rope;
  LatentLayout layout;
};

inline constexpr int kTilesNope = 448, kTilesRope = 64, kTilesWidth = kTilesNope + kTilesRope;

/// Rows of 448 + 64 values, all addresses on 16 bytes.
void attention_tiles(const AttentionLaunch& launch, CudaContext& context);
[[nodiscard]] std::int64_t attention_tiles_scratch_bytes();

void attention_any(const AttentionLaunch& launch, CudaContext& context);

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
