/// BF16 values in registers: rounding to them (nearest even; NaN stays NaN), two to a word, eight to a
/// 16-byte vector, and back.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

namespace baleen {

/// The first (lower) and second value of a word.
__device__ inline float bf16_low(std::uint32_t word) { return __uint_as_float(word << 16); }
__device__ inline float bf16_high(std::uint32_t word) { return __uint_as_float(word & 0xFFFF0000u); }

/// Rounded, `low` in the lower half.
__device__ inline std::uint32_t pack_bf16(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  return static_cast<std::uint32_t>(__bfloat16_as_ushort(pair.x)) |
         static_cast<std::uint32_t>(__bfloat16_as_ushort(pair.y)) << 16;
}

/// `float_to_bf16` and `round_bf16` of numeric/bf16.h. The instruction that packs two is quicker than the one
/// that converts one.
__device__ inline std::uint16_t bf16_bits(float value) {
  return static_cast<std::uint16_t>(pack_bf16(value, 0.0F));
}
__device__ inline float rounded_to_bf16(float value) { return bf16_low(pack_bf16(value, 0.0F)); }

__device__ inline void unpack_bf16(const uint2& words, float (&values)[4]) {
  values[0] = bf16_low(words.x), values[1] = bf16_high(words.x);
  values[2] = bf16_low(words.y), values[3] = bf16_high(words.y);
}
__device__ inline void unpack_bf16(const uint4& words, float (&values)[8]) {
  const std::uint32_t word[4] = {words.x, words.y, words.z, words.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    values[2 * i] = bf16_low(word[i]);
    values[2 * i + 1] = bf16_high(word[i]);
  }
}

__device__ inline uint2 pack_bf16(const float (&values)[4]) {
  return {pack_bf16(values[0], values[1]), pack_bf16(values[2], values[3])};
}
__device__ inline uint4 pack_bf16(const float (&values)[8]) {
  return {pack_bf16(values[0], values[1]), pack_bf16(values[2], values[3]), pack_bf16(values[4], values[5]),
          pack_bf16(values[6], values[7])};
}

}  // namespace baleen
