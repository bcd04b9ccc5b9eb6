/// Hopper (sm_90a) kernels of sparse_attention. What pointers and activations are there: cuda/cuda_context.h.
#pragma once

#include <cstdint>

#include "cuda/cuda_context.h"
#include "ops/sparse_attention/sparse_attention.h"

namespace baleen::sm90 {

/// Also turns the result back: as if followed by rope(turn), whose x is `out` and which is inverse.
void sparse_attention_rope(const SparseAttentionArgs& args, const RopeArgs& turn, CudaContext& context);
/// V3.2's rows, whose values are not rotated.
void sparse_attention(const SparseAttentionArgs& args, CudaContext& context);
/// For steps of up to `max_rows` rows of up to `max_sequences` sequences with up to `max_positions` positions each.
[[nodiscard]] std::int64_t sparse_attention_scratch_bytes(std::int64_t head_dim, std::int64_t max_rows,
                                                               std::int64_t max_sequences,
                                                               std::int64_t max_positions);

}  // namespace baleen::sm90
