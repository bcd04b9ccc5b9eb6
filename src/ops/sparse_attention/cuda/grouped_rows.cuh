/// Rows of V4.1 (numeric/grouped_row.h) as kernels read them: codes, then a scale for every group.
#pragma once

#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <cstddef>
#include <cstdint>

#include "cuda/bf16_vector.cuh"
#include "cuda/scale_group.cuh"

namespace baleen::BALEEN_ARCH {

/// Values that share a scale: a power of two of positions, an e4m3 number of entries.
inline constexpr int kPositionGroup = 32, kEntryGroup = 16;

[[nodiscard]] __host__ __device__ constexpr int position_row_bytes(int width) {
  return width + width / kPositionGroup;
}
[[nodiscard]] __host__ __device__ constexpr int entry_row_bytes(int width) {
  return width / 2 + width / kEntryGroup;
}

/// An e4m3 number times 2^-120; NaN for its NaN.
__device__ inline float e4m3_over_2_120(std::uint32_t code) {
  constexpr std::uint32_t kNaN = 0x7F;
  // Exponent and mantissa have their places in a float32, whose exponent counts from 120 further down.
  return __uint_as_float((code & kNaN) == kNaN ? 0x7FC00000u : code << 20);
}

/// What `dequantise_e4m3_pair` multiplies the codes of `entry_codes` with: the e4m3 number `scale` over 2^6.
__device__ inline std::uint32_t entry_multiplier(std::uint32_t scale) {
  constexpr float kMultiplier = 0x1p117F;  // twice, for 2^(120 + 120 - 6)
  const float multiplier = e4m3_over_2_120(scale) * kMultiplier * kMultiplier;
  return pack_bf16(multiplier, multiplier);
}

/// Eight e2m1 codes, lowest nibble first, as e4m3 codes of 2^6 times their numbers; so the multiplier stays a
/// BF16 number.
__device__ inline void entry_codes(std::uint32_t codes, std::uint32_t& first, std::uint32_t& second) {
  constexpr std::uint32_t kLow = 0x6C686000u, kHigh = 0x7C787470u;  // 0, 0.5, 1, 1.5 and 2, 3, 4, 6
  dequantise_e2m1(codes, kLow, kHigh, first, second);
}

/// Eight e2m1 codes, lowest nibble first, times the e4m3 number `scale`: exact in BF16.
__device__ inline uint4 dequantised_entry(std::uint32_t codes, std::uint32_t scale) {
  const std::uint32_t multiplier = entry_multiplier(scale);
  std::uint32_t first, second;
  entry_codes(codes, first, second);
  return {dequantise_e4m3_pair(first, multiplier), dequantise_e4m3_pair(first >> 16, multiplier),
          dequantise_e4m3_pair(second, multiplier), dequantise_e4m3_pair(second >> 16, multiplier)};
}

}  // namespace baleen::BALEEN_ARCH
