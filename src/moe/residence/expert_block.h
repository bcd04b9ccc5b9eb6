/// One expert's arrays one behind the other, so that a single address says where it lies and a single copy
/// moves it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "model/config.h"
#include "ops/experts/experts.h"

namespace baleen {

class ExpertBlock {
 public:
  /// Where every array begins, within a block that is so aligned itself.
  static constexpr std::int64_t kAlignment = 256;

  /// For experts of these formats and shapes.
  explicit ExpertBlock(const ExpertWeights& like);
  ExpertBlock(const ModelConfig& config, WeightFormat format);

  /// Of a block: whole pages of memory.
  [[nodiscard]] std::int64_t bytes() const { return bytes_; }
  /// The matrices of the expert whose block is at `block`.
  [[nodiscard]] ExpertWeights at(const std::byte* block) const;

  struct Piece {
    std::span<const std::byte> bytes;
    std::int64_t offset;  ///< where it begins in the block
  };
  /// Codes, scales and the scale of the whole matrix, each of w1, w3, w2.
  static constexpr std::size_t kNumPieces = 9;
  /// In that order; what a format does not have is empty.
  [[nodiscard]] std::array<Piece, kNumPieces> pieces(const ExpertWeights& expert) const;

 private:
  ExpertWeights shape_;  ///< without addresses
  std::array<std::int64_t, kNumPieces> offsets_{};
  std::int64_t bytes_ = 0;
};

}  // namespace baleen
