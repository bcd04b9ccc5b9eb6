/// The activations of a forward pass, for the largest step: every buffer by name, laid out once.
#pragma once

#include <cstdint>

#include "model/config.h"
#include "tensor/activations.h"
#include "tensor/buffer.h"
#include "tensor/fp8_rows.h"

namespace baleen {

/// R rows at most. Views are taken with `rows(buffer, T)`. Those that hold BF16 values have the device's type for them;
/// the others are float32 everywhere.
struct ForwardBuffers {
  ForwardBuffers() = default;
  /// Allocates from `arena`, which has `forward_buffer_bytes` left.
  ForwardBuffers(const ModelConfig& config, std::int64_t max_rows, ElementType type, Arena& arena);

  Activations<3> streams;      ///< [R, n, d] residual streams of the main layers
  Activations<3> mtp_streams;  ///< [R, n, d] of the MTP block
  Activations<2> u;            ///< [R, d] what a half-block sees, before and after its norm
  Activations<2> f;            ///< [R, d] what it returns
  Fp8Rows u_fp8;               ///< u after its norm, for FP8 products; of devices that have BF16 activations
  Activations<2> post;         ///< [R, n] float32
  Activations<3> comb;         ///< [R, n, n] float32
  Activations<2> q_latent;     ///< [R, R_q]
  Fp8Rows q_latent_fp8;        ///< as u_fp8
  Activations<2> q;            ///< [R, H c]
  Activations<2> kv;           ///< [R, c]
  Activations<2> attended;     ///< [R, H c]
  Activations<2> grouped;      ///< [R, G R_o]
  Activations<2> main_kv;      ///< [R, 2 c] compressor products (c of them with ratio 128), float32
  Activations<2> main_gate;    ///< [R, 2 c] float32
  Activations<2> index_kv;     ///< [R, 2 c_I] float32
  Activations<2> index_gate;   ///< [R, 2 c_I] float32
  Activations<2> index_q;      ///< [R, H_I c_I]
  Activations<2> index_weights;      ///< [R, H_I]
  View<std::int32_t, 2> selected;    ///< [R, K_I]
  Activations<2> router_logits;      ///< [R, E] float32
  View<std::int32_t, 2> expert_ids;  ///< [R, k]
  Activations<2> expert_weights;     ///< [R, k] float32
  Activations<2> cosine[2];          ///< [R, c_r / 2] float32; 0: plain, 1: layers that compress
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
