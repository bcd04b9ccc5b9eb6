/// Rounding to e2m1 codes with a power-of-two scale, on the device: the functions of numeric/e2m1.h and
/// numeric/block_scale.h, to the bit.
/// (source: forward pass 2.1, 2.2)
#pragma once

#include <cstdint>

namespace baleen {

/// 2^ceil(log2(max(amax, 6 * 2^-126) / 6)). 1 / scale is exact.
__device__ inline float fp4_scale(float amax) {
  constexpr std::uint32_t kMantissa = 0x7FFFFFu;
  const float ratio = fminf(fmaxf(amax, 6.0F * 0x1p-126F), 0x1p127F) * (1.0F / 6.0F);
  return __uint_as_float((__float_as_uint(ratio) + kMantissa) & ~kMantissa);
}

/// Nearest, ties to the even code, saturating at +-6; NaN gives 0.
__device__ inline std::uint32_t to_e2m1(float value) {
  // Midpoints between neighbours: those above an odd code round up on equality.
  const float magnitude = fabsf(value);
  const std::uint32_t code = (magnitude > 0.25F) + (magnitude >= 0.75F) + (magnitude > 1.25F) +
                             (magnitude >= 1.75F) + (magnitude > 2.5F) + (magnitude >= 3.5F) +
                             (magnitude > 5.0F);
  constexpr int kSignShift = 28;  // from a float's sign to a code's
  const std::uint32_t sign = __float_as_uint(value) >> kSignShift & 8u;
  return isnan(value) ? 0u : code | sign;
}

/// Four codes, the first in the lowest nibble.
__device__ inline std::uint32_t to_e2m1x4(float a, float b, float c, float d) {
  return to_e2m1(a) | to_e2m1(b) << 4 | to_e2m1(c) << 8 | to_e2m1(d) << 12;
}

}  // namespace baleen
