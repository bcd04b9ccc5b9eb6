/// What a rank's forward pass needs beside its activations in order to exchange them: every array by name. Of
/// one rank nothing.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>

#include "model/config.h"
#include "model/rank_layout.h"
#include "tensor/activations.h"
#include "tensor/buffer.h"
#include "tensor/fp8_rows.h"
#include "tensor/memory.h"

namespace baleen {

/// For steps of R rows of the rank's batch. P = R x output_row_groups() rows of the output projection, O =
/// o_proj_tp; S = rows that all ranks of a stage may send to one; k' = assignments of such a row: 1, or k
/// where tokens arrive; V' = its part of the vocabulary.
struct MessageBuffers {
  MessageBuffers() = default;
  /// `config` is that of the rank. Arrays of no use to `layout` stay empty.
  MessageBuffers(const ModelConfig& config, const RankLayout& layout, std::int64_t max_rows, ElementType type,
                 Memory& memory);
  /// Of the arrays for tokens that differ between ranks, where `first` own rows and what `first_arrived` may
  /// come of them have gone before: the rest, as buffers of their own. `first_arrived` is a multiple of 4.
  [[nodiscard]] MessageBuffers from_row(std::int64_t first, std::int64_t first_arrived) const;

  Activations<2> heads;    ///< [P, H c / O] for output groups of this rank; where heads are split otherwise
  Activations<2> grouped;  ///< [P, G R_o / O], likewise
  Activations<2> sums;     ///< [max(P, S where sums of experts are added), d] float32 partial sums
  Activations<2> logits;   ///< [R, V'] float32

  // Where tokens differ between ranks.
  Activations<2> arrived;  ///< [S, d] rows from other ranks
  Fp8Rows arrived_fp8;
  View<std::int32_t, 2> arrived_ids;  ///< [S, k']
  Activations<2> arrived_weights;     ///< [S, k'] float32
  Activations<2> outputs;             ///< [S, d] of experts, where these return; float32 where they are split
  Activations<2> shared;              ///< [R, d] likewise
  DispatchedRows received;

  /// Of all arrays.
  [[nodiscard]] std::int64_t num_bytes() const;

 private:
  void place_output(const ModelConfig& config, const RankLayout& layout, std::int64_t max_rows);
  void place_experts(const ModelConfig& config, const RankLayout& layout, std::int64_t max_rows);
  [[nodiscard]] Activations<2> take(std::int64_t num_rows, std::int64_t width, ElementType type);
  template <class T>
  T* allocate(std::int64_t count);

  ElementType type_ = ElementType::kF32;
  Memory* memory_ = nullptr;
  std::shared_ptr<std::deque<Buffer>> buffers_ = std::make_shared<std::deque<Buffer>>();
};

/// What these take for steps of `max_rows` rows, where activations are of `type`.
[[nodiscard]] std::int64_t message_buffer_bytes(const ModelConfig& config, const RankLayout& layout,
                                                std::int64_t max_rows, ElementType type);

}  // namespace baleen
