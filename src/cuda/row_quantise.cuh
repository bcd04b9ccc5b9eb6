/// Rounding rows to e4m3 codes with a power-of-two scale per 128 values, on the device.
/// (source: forward pass 2.2, 2.3)
///
/// The values of a block lie in neighbouring lanes of a warp, 4, 8 or 16 in each; every lane gets the codes
/// of its own values and the scale of the block. The same function as `quantise_fp8_block` of
/// numeric/block_scale.h, to the bit: codes of NaN are NaN, and NaN does not count for the scale; infinities
/// saturate.
#pragma once

#include <cuda_fp8.h>

#include <cstdint>

#include "tensor/fp8_rows.h"

namespace baleen {

inline constexpr int kFp8RowBlock = 128;  ///< values that share a scale

/// 2^ceil(log2(max(amax, 1e-4) / 448)).
__device__ inline float fp8_scale(float amax) {
  constexpr std::uint32_t kMantissa = 0x7FFFFFu;
  const float ratio = fminf(fmaxf(amax, 1e-4F), 0x1p127F) * (1.0F / 448.0F);
  return __uint_as_float((__float_as_uint(ratio) + kMantissa) & ~kMantissa);
}

/// 1 / scale, exact. `scale` is a power of two in [2^-126, 2^126].
__device__ inline float inverse_scale(float scale) {
  constexpr std::uint32_t kTwiceOne = 2u * 0x3F800000u;
  return __uint_as_float(kTwiceOne - __float_as_uint(scale));
}

/// Four e4m3 codes in the order of the values: nearest, ties to even, saturating.
__device__ inline std::uint32_t to_e4m3x4(float a, float b, float c, float d) {
  const std::uint32_t low = __nv_cvt_float2_to_fp8x2({a, b}, __NV_SATFINITE, __NV_E4M3);
  const std::uint32_t high = __nv_cvt_float2_to_fp8x2({c, d}, __NV_SATFINITE, __NV_E4M3);
  return low | high << 16;
}

/// What a lane has of a block: the codes of its values, four to a word, and the scale of all 128.
template <int kValues>
struct Fp8Piece {
  std::uint32_t codes[kValues / 4];
  float scale;
};

/// `values`: kValues of 128 that lie in 128 / kValues neighbouring lanes, the first of which is a multiple of
/// that number. All lanes of the warp take part.
template <int kValues>
__device__ Fp8Piece<kValues> quantise_fp8_block(const float (&values)[kValues]) {
  static_assert(kValues == 4 || kValues == 8 || kValues == 16);
  constexpr int kLanes = kFp8RowBlock / kValues;
  float amax = 0.0F;
#pragma unroll
  for (int i = 0; i < kValues; ++i) amax = fmaxf(amax, fabsf(values[i]));
#pragma unroll
  for (int step = kLanes / 2; step > 0; step /= 2) {
    amax = fmaxf(amax, __shfl_xor_sync(0xFFFFFFFFu, amax, step));
  }
  Fp8Piece<kValues> piece;
  piece.scale = fp8_scale(amax);
  const float inverse = inverse_scale(piece.scale);
#pragma unroll
  for (int i = 0; i < kValues; i += 4) {
    piece.codes[i / 4] = to_e4m3x4(values[i] * inverse, values[i + 1] * inverse, values[i + 2] * inverse,
                                   values[i + 3] * inverse);
  }
  return piece;
}

/// Writes a lane's piece, whose first value is element `column` of row `row` of `width`, a multiple of 128.
template <int kValues>
__device__ void store_fp8_piece(const Fp8Rows& rows, std::int64_t row, std::int64_t width,
                                std::int64_t column, const Fp8Piece<kValues>& piece) {
  std::uint8_t* codes = rows.codes + row * width + column;
  if constexpr (kValues == 4) {
    *reinterpret_cast<std::uint32_t*>(codes) = piece.codes[0];
  } else if constexpr (kValues == 8) {
    *reinterpret_cast<uint2*>(codes) = {piece.codes[0], piece.codes[1]};
  } else {
    *reinterpret_cast<uint4*>(codes) = {piece.codes[0], piece.codes[1], piece.codes[2], piece.codes[3]};
  }
  if (column % kFp8RowBlock == 0) rows.scales[column / kFp8RowBlock * rows.scale_stride + row] = piece.scale;
}

}  // namespace baleen
