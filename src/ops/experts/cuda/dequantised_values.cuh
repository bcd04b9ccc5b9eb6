/// Codes of weights and of activations as BF16 values, eight at a time, in the order that products of
/// dequantised weights take them.
#pragma once

#include <cstdint>

#include "cuda/ptx/bf16_pair.h"
#include "cuda/ptx/byte_permute.h"
#include "cuda/scale_group.cuh"

namespace baleen::BALEEN_ARCH::dequantised {

// Of operands with scales per 32 in their values: FP4 weights are 2^-63 and activations 2^-16 of what they
// are, exactly for scales of weights of 2^-61 to 2^64 and of activations up to 2^23. Larger ones count as
// those.
inline constexpr int kFp4Shift = 63, kTokenShift = 16;

/// Pairs (0, 4), (1, 5), (2, 6), (3, 7) of eight e2m1 codes as BF16: magnitudes count from 2^-126.
__device__ inline void dequantise_e2m1_word(std::uint32_t word, std::uint32_t multiplier,
                                            std::uint32_t (&pairs)[4]) {
  constexpr std::uint32_t kMagnitudes = 0x01C001C0, kSigns = 0x80008000;
  pairs[0] = ptx::multiply_bf16_pair((word << 6 & kMagnitudes) | (word << 12 & kSigns), multiplier);
  pairs[1] = ptx::multiply_bf16_pair((word << 2 & kMagnitudes) | (word << 8 & kSigns), multiplier);
  pairs[2] = ptx::multiply_bf16_pair((word >> 2 & kMagnitudes) | (word << 4 & kSigns), multiplier);
  pairs[3] = ptx::multiply_bf16_pair((word >> 6 & kMagnitudes) | (word & kSigns), multiplier);
}

/// Pairs (0, 4), (1, 5), (2, 6), (3, 7) of eight e4m3 codes as BF16.
__device__ inline void dequantise_e4m3_words(std::uint32_t low, std::uint32_t high, std::uint32_t (&pairs)[4],
                                             std::uint32_t multiplier = e4m3_multiplier(1.0F)) {
  // Each code's byte with eight copies of its sign above it (`dequantise_e4m3_pair`).
  constexpr std::uint32_t kSignExponentMantissa = 0x87F087F0;
  const auto pair = [&](std::uint32_t extended) {
    return ptx::multiply_bf16_pair(extended << 4 & kSignExponentMantissa, multiplier);
  };
  pairs[0] = pair(ptx::byte_permute<0xC480>(low, high));
  pairs[1] = pair(ptx::byte_permute<0xD591>(low, high));
  pairs[2] = pair(ptx::byte_permute<0xE6A2>(low, high));
  pairs[3] = pair(ptx::byte_permute<0xF7B3>(low, high));
}

/// What `low` and `high`, eight e4m3 codes of an activation, or fewer repeated, are multiplied with where they
/// have `scale`: that times 2^-kTokenShift, or NaN where one of them is NaN.
__device__ inline std::uint32_t token_multiplier(std::uint32_t low, std::uint32_t high, float scale) {
  constexpr std::uint32_t kMagnitudes = 0x7F7F7F7F, kOnes = 0x01010101, kTops = 0x80808080,
                          kNaNs = 0x7FC07FC0;
  if (((((low & kMagnitudes) + kOnes) | ((high & kMagnitudes) + kOnes)) & kTops) != 0) return kNaNs;
  constexpr float kLargest = 0x1p23F;
  return e4m3_multiplier(fminf(scale, kLargest) * power_of_two(-kTokenShift));
}

}  // namespace baleen::BALEEN_ARCH::dequantised
