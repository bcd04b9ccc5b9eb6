/// Rotation angles of the positions of a pass, one table for each kind of layers.
/// (source: forward pass 5.2; products in float32 are part of the format)
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "forward/pass.h"
#include "forward/pass_arrays.h"
#include "model/layer_attention.h"

namespace baleen {

struct RotationArrays {
  RotationArrays() = default;
  RotationArrays(const RankConfig& rank, ActivationArrays& arrays);
  /// The rows from `first` on; frequencies are the same.
  [[nodiscard]] RotationArrays from_row(std::int64_t first) const;

  /// By `RopeKind`.
  std::array<Activations<2>, kNumRopeKinds> cosine;  ///< [R, c_r / 2] float32
  std::array<Activations<2>, kNumRopeKinds> sine;    ///< [R, c_r / 2] float32
  std::array<float*, kNumRopeKinds> frequencies{};   ///< [c_r / 2]
};

class RotationAngles {
 public:
  RotationAngles(const PassContext& context, ActivationArrays& arrays);

  /// From now on second micro-batches have the rows from `first` on.
  void cut(std::int64_t first) { arrays_.cut(first); }
  /// Computes those of all rows of a pass, both kinds.
  void prepare(const Pass& pass);

  [[nodiscard]] std::span<const float> frequencies(RopeKind kind) const;
  /// [rows, c_r / 2] of rows of the pass.
  [[nodiscard]] Activations<2> cosine(RopeKind kind, const Pass& pass, const RowRange& rows) const {
    return arrays_.of(pass).cosine[index_of(kind)].slice(rows.begin, rows.end);
  }
  [[nodiscard]] Activations<2> sine(RopeKind kind, const Pass& pass, const RowRange& rows) const {
    return arrays_.of(pass).sine[index_of(kind)].slice(rows.begin, rows.end);
  }

 private:
  [[nodiscard]] static std::size_t index_of(RopeKind kind) { return static_cast<std::size_t>(kind); }

  PassContext context_;
  PerMicroBatch<RotationArrays> arrays_;
};

}  // namespace baleen
