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
  // A code in the lowest bits of each half is copied by a product to where BF16 has its sign and to where it
  // has the magnitude. Two shifts and their sum would be work of the units that all the rest is work of.
  constexpr std::uint32_t kFields = 0x81C081C0, kFirst = 0x000F000F, kSecond = 0x00F000F0;
  const auto pair = [&](std::uint32_t codes, std::uint32_t copies) {
    return ptx::multiply_bf16_pair(codes * copies & kFields, multiplier);
  };
  constexpr std::uint32_t kFirstCopies = 1 << 6 | 1 << 12, kSecondCopies = 1 << 2 | 1 << 8;
  const std::uint32_t later = word >> 8;
  pairs[0] = pair(word & kFirst, kFirstCopies);
  pairs[1] = pair(word & kSecond, kSecondCopies);
  pairs[2] = pair(later & kFirst, kFirstCopies);
  pairs[3] = pair(later & kSecond, kSecondCopies);
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

/// What `low` and `high`, eight e4m3 codes of an activation, or fewer repeated, are multiplied with where
/// they have `scale`: that times 2^-kTokenShift, or NaN where one of them is NaN.
__device__ inline std::uint32_t token_multiplier(std::uint32_t low, std::uint32_t high, float scale) {
  constexpr std::uint32_t kMagnitudes = 0x7F7F7F7F, kOnes = 0x01010101, kTops = 0x80808080,
                          kNaNs = 0x7FC07FC0;
  if (((((low & kMagnitudes) + kOnes) | ((high & kMagnitudes) + kOnes)) & kTops) != 0) return kNaNs;
  constexpr float kLargest = 0x1p23F;
  return e4m3_multiplier(fminf(scale, kLargest) * power_of_two(-kTokenShift));
}

}  // namespace baleen::BALEEN_ARCH::dequantised
