/// The values of a forward pass, for the largest step: every array by name, laid out once. All blocks share
/// one set of them, and the two halves of a block what both have.
#pragma once

#include <cstdint>

#include "model/config.h"
#include "tensor/activations.h"
#include "tensor/buffer.h"
#include "tensor/fp8_rows.h"

namespace baleen {

// R rows at most. Views are taken with `rows(array, T)`. Arrays that hold BF16 values have the device's type
// for them; the others are float32 everywhere.

/// Attention, or the experts, with the hyper-connections around it.
struct HalfBlockValues {
  Activations<2> entered;  ///< [R, d] what the half-block sees, before its norm
  Activations<2> u;        ///< [R, d] after it, in place of `entered`
  Fp8Rows u_fp8;           ///< u for FP8 products; of devices that have BF16 activations
  Activations<2> f;        ///< [R, d] what it returns
  Activations<2> post;     ///< [R, n] float32
  Activations<3> comb;     ///< [R, n, n] float32
};

/// What the operations of one block leave. What may be overwritten in place is: one array with two names.
struct BlockValues {
  HalfBlockValues attention, experts;
  Activations<2> q_down;             ///< [R, R_q] of wq_a, before its norm
  Activations<2> q_latent;           ///< [R, R_q] after it, in place
  Fp8Rows q_latent_fp8;              ///< as u_fp8
  Activations<2> q_up;               ///< [R, H c] of wq_b, before norm and rotation
  Activations<2> q;                  ///< [R, H c] after them, in place
  Activations<2> kv;                 ///< [R, c] before the norm that the cache's rows have
  Activations<2> attended;           ///< [R, H c] rotated back
  Activations<2> grouped;            ///< [R, G R_o]
  Activations<2> main_kv;            ///< [R, 2 c] compressor products (c of them with ratio 128), float32
  Activations<2> main_gate;          ///< [R, 2 c] float32
  Activations<2> index_kv;           ///< [R, 2 c_I] float32
  Activations<2> index_gate;         ///< [R, 2 c_I] float32
  Activations<2> index_q;            ///< [R, H_I c_I]
  Activations<2> index_weights;      ///< [R, H_I]
  View<std::int32_t, 2> selected;    ///< [R, K_I]
  Activations<2> router_logits;      ///< [R, E] float32
  View<std::int32_t, 2> expert_ids;  ///< [R, k]
  Activations<2> expert_weights;     ///< [R, k] float32
};

struct ForwardBuffers {
  ForwardBuffers() = default;
  /// Allocates from `arena`, which has `forward_buffer_bytes` left.
  ForwardBuffers(const ModelConfig& config, std::int64_t max_rows, ElementType type, Arena& arena);

  /// The rows from `first` on of every array that has any, as buffers of their own: `first` a multiple of 4.
  /// What all rows have in common stays common.
  [[nodiscard]] ForwardBuffers from_row(const ModelConfig& config, std::int64_t first) const;

  Activations<3> streams;        ///< [R, n, d] residual streams of the main layers
  Activations<3> draft_streams;  ///< [R, n, d] of a draft head's blocks
  Activations<3> entry_streams;  ///< [R, n, d] what a draft head makes those of, in place of `streams`
  Activations<2> entry_values;   ///< [R, d] likewise: a block's `u`
  Activations<2> head_entered;   ///< [R, d] of the head, before its norm: a block's `u`
  Activations<2> head_u;         ///< [R, d] after it, in place
  BlockValues block;             ///< of the latest block
  Activations<2> cosine[2];      ///< [R, c_r / 2] float32; 0: plain, 1: layers that compress
  Activations<2> sine[2];
  float* frequencies[2] = {};           ///< [c_r / 2], of the same two kinds
  std::int64_t* expert_load = nullptr;  ///< [blocks, E]
};

[[nodiscard]] std::int64_t forward_buffer_bytes(const ModelConfig& config, std::int64_t max_rows,
                                                ElementType type);

/// The first `count` rows of a buffer for more, as a dense array of `width` columns.
template <class T>
[[nodiscard]] View<T, 2> rows(const View<T, 2>& buffer, std::int64_t count) {
  return {buffer.data(), {count, buffer.extent(1)}};
}
[[nodiscard]] inline Activations<2> rows(const Activations<2>& buffer, std::int64_t count,
                                         std::int64_t width) {
  return buffer.reshaped<2>({count, width});
}
[[nodiscard]] inline Activations<2> rows(const Activations<2>& buffer, std::int64_t count) {
  return rows(buffer, count, buffer.extent(1));
}
[[nodiscard]] inline Activations<3> rows(const Activations<3>& buffer, std::int64_t count) {
  return buffer.reshaped<3>({count, buffer.extent(1), buffer.extent(2)});
}

}  // namespace baleen
