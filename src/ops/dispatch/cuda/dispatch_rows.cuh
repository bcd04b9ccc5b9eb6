/// Rows on their way to experts, a piece a thread: FP8 codes with their scale, or BF16 values.
#pragma once

#include "cuda/bf16_vector.cuh"
#include "cuda/scale_group.cuh"
#include "ops/dispatch/cuda/dispatch.h"

namespace baleen::BALEEN_ARCH {

inline constexpr int kPieceValues = 16;  ///< a vector of codes, two of BF16 values

struct Piece {
  uint4 words[2];  ///< codes, or BF16 values
  float scale;
};

__device__ inline Piece load_piece(const DispatchLaunch& p, std::int64_t token, std::int64_t column) {
  if (p.sends_fp8 && p.x_fp8.codes != nullptr) {
    return {{*reinterpret_cast<const uint4*>(p.x_fp8.codes + token * p.width + column), {}},
            p.x_fp8.scales[column / kActivationGroup * p.x_fp8.scale_stride + token]};
  }
  const uint4* const x = reinterpret_cast<const uint4*>(p.x + token * p.width + column);
  Piece piece{{x[0], x[1]}, 0.0F};
  if (!p.sends_fp8) return piece;
  float values[kPieceValues];
  unpack_bf16(piece.words[0], reinterpret_cast<float(&)[8]>(values[0]));
  unpack_bf16(piece.words[1], reinterpret_cast<float(&)[8]>(values[8]));
  const Fp8Piece<kPieceValues> codes = quantise_fp8_group(values);
  return {{{codes.codes[0], codes.codes[1], codes.codes[2], codes.codes[3]}, {}}, codes.scale};
}

__device__ inline void store_piece(const DispatchLaunch& p, const ArrivalArrays& to, std::int64_t row,
                                   std::int64_t column, const Piece& piece) {
  if (!p.sends_fp8) {
    auto* const at = reinterpret_cast<uint4*>(to.rows + row * p.width + column);
    at[0] = piece.words[0];
    at[1] = piece.words[1];
    return;
  }
  *reinterpret_cast<uint4*>(to.codes + row * p.width + column) = piece.words[0];
  if (column % kActivationGroup == 0)
    to.scales[column / kActivationGroup * p.scale_stride + row] = piece.scale;
}

/// Columns that whole warps go over, as quantising wants it.
__device__ inline std::int64_t columns_of_whole_warps(std::int64_t width) {
  constexpr std::int64_t kWarpValues = kPieceValues * 32;
  return (width + kWarpValues - 1) / kWarpValues * kWarpValues;
}

}  // namespace baleen::BALEEN_ARCH
