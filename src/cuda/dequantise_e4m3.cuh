/// e4m3 to BF16, two values at a time, scaled on the way: four instructions a pair.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "cuda/ptx/bf16_pair.h"
#include "cuda/ptx/byte_permute.h"

namespace baleen {

/// What `dequantise_e4m3_pair` multiplies with, twice in a word. Exact for powers of two below 2^8.
__device__ inline std::uint32_t e4m3_multiplier(float scale) {
  constexpr float kBiasDifference = 0x1p120F;  // exponents of e4m3 count from -7, those of BF16 from -127
  return std::uint32_t{__bfloat16_as_ushort(__float2bfloat16_rn(scale * kBiasDifference))} * 0x10001u;
}

/// The two codes in the lower half of `codes`, first one in the lower half of the result. A power-of-two
/// scale gives the exact values; another one rounds them to BF16. (NaN codes count as 480.)
__device__ inline std::uint32_t dequantise_e4m3_pair(std::uint32_t codes, std::uint32_t multiplier) {
  // s.eeee.mmm, extended by its sign to 16 bits and moved up by 4, has sign and mantissa where BF16 wants
  // them; four bits between sign and exponent go. The tiny number that this is in BF16 (subnormal where the
  // code is) is then multiplied.
  constexpr std::uint32_t kSignExponentMantissa = 0x87F087F0;
  const std::uint32_t extended = ptx::byte_permute<0x9180>(codes);
  return ptx::multiply_bf16_pair(extended << 4 & kSignExponentMantissa, multiplier);
}

}  // namespace baleen
