/// Kernels of sparse_attention. What pointers and activations are there: cuda/cuda_context.h.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "cuda/cuda_context.h"
#include "ops/sparse_attention/sparse_attention.h"

namespace baleen::BALEEN_ARCH {

/// Also rotates the result back: as if followed by rope(rotation), whose x is `out` and which is inverse. By
/// the best kernel that takes it.
void sparse_attention_rope(const SparseAttentionArgs& args, const RopeArgs& rotation, CudaContext& context);
/// The same with plain loops for whatever geometry.
void attention_any_rope(const SparseAttentionArgs& args, const RopeArgs& rotation, CudaContext& context);
[[nodiscard]] std::optional<Reason> why_not_one_pass(const SparseAttentionArgs& args,
                                                     const RopeArgs& rotation, const DeviceTraits& traits);
/// What keeps a call from the kernels on tensor cores, which take V4's and V4.1's rows of 448 + 64 values at
/// addresses on 16 bytes.
[[nodiscard]] std::optional<Reason> why_not_tiles(const SparseAttentionArgs& args);
/// Without rotation, with plain loops: V3.2's rows, whose values are not rotated, and V4's.
void sparse_attention(const SparseAttentionArgs& args, CudaContext& context);
/// For steps of up to `max_rows` rows of up to `max_sequences` sequences with up to `max_positions` positions
/// each.
[[nodiscard]] std::int64_t sparse_attention_scratch_bytes(std::int64_t head_dim, std::int64_t max_rows,
                                                          std::int64_t max_sequences,
                                                          std::int64_t max_positions);

[[nodiscard]] std::span<const CudaVariant<ops::SparseAttention>> sparse_attention_variants();
[[nodiscard]] std::span<const CudaVariant<ops::SparseAttention, ops::Rope>> sparse_attention_rope_variants();

}  // namespace baleen::BALEEN_ARCH
