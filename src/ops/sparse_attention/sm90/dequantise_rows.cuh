/// Codes of cache rows to BF16 in shared memory, in tiles [64 entries][64 dims] swizzled as TMA
/// does.
#pragma once

#include "cuda/dequantise_e4m3.cuh"
#include "numeric/block_scale.h"
#include "ops/sparse_attention/sm90/tile_work.cuh"

namespace baleen::sm90 {

inline constexpr std::uint32_t kE8m0Bias = 127, kE8m0NaN = 255;
inline constexpr std::uint32_t kBiasDifference = 120;          ///< in `e4m3_multiplier`
inline constexpr std::uint32_t kLargestScale = kE8m0Bias + 7;  ///< that it can take

/// 2^(code - 127), twice.
__device__ inline std::uint32_t bf16_power_of_two(std::uint32_t code, bool nan = false) {
  constexpr int kBf16ExponentShift = 7;
  constexpr std::uint32_t kNaN = 0x7FC0;
  return (nan ? kNaN : code << kBf16ExponentShift) * 0x10001u;
}

/// 16-byte chunk `chunk` of row `entry`.
__device__ inline std::byte* chunk_of(std::byte* tile, int entry, int chunk) {
  return tile + entry * kTileDims * 2 + ((chunk ^ entry % 8) << 4);
}

/// Codes 16 piece .. of a row's 64 that share `scale`. `multiply_by_rest` must follow for scales above
/// kLargestScale.
__device__ inline void store_dequantised(const uint4& codes, std::uint32_t scale, std::byte* tile, int entry,
                                         int piece) {
  const std::uint32_t words[4] = {codes.x, codes.y, codes.z, codes.w};
  std::uint32_t values[8];
  const std::uint32_t multiplier = bf16_power_of_two(min(scale, kLargestScale) + kBiasDifference);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    values[2 * i] = dequantise_e4m3_pair(words[i], multiplier);
    values[2 * i + 1] = dequantise_e4m3_pair(words[i] >> 16, multiplier);
  }
  *reinterpret_cast<uint4*>(chunk_of(tile, entry, 2 * piece)) = {values[0], values[1], values[2], values[3]};
  *reinterpret_cast<uint4*>(chunk_of(tile, entry, 2 * piece + 1)) = {values[4], values[5], values[6],
                                                                     values[7]};
}

/// Values beyond 2^7 times 448, which no model has: what `store_dequantised` stored of them, once more.
__device__ inline void multiply_by_rest(std::uint32_t scale, std::byte* tile, int entry, int piece) {
  if (scale <= kLargestScale) return;
  const std::uint32_t rest = bf16_power_of_two(scale - kLargestScale + kE8m0Bias, scale == kE8m0NaN);
  for (int chunk = 2 * piece; chunk < 2 * piece + 2; ++chunk) {
    auto* values = reinterpret_cast<uint4*>(chunk_of(tile, entry, chunk));
    *values = {ptx::multiply_bf16_pair(values->x, rest), ptx::multiply_bf16_pair(values->y, rest),
               ptx::multiply_bf16_pair(values->z, rest), ptx::multiply_bf16_pair(values->w, rest)};
  }
}

}  // namespace baleen::sm90
