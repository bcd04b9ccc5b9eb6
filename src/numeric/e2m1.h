/// float4 e2m1: sign and a code 0..7 for the magnitudes 0, 0.5, 1, 1.5, 2, 3, 4, 6. Packed two a byte, low
/// nibble first along the input axis (source: checkpoint layout, "Packed FP4").
#pragma once

#include <array>
#include <cmath>
#include <cstdint>

namespace baleen {

inline constexpr float kE2m1Max = 6.0F;
inline constexpr std::array<float, 16> kE2m1Values{0.0F,  0.5F,  1.0F,  1.5F,  2.0F,  3.0F,  4.0F,  6.0F,
                                                   -0.0F, -0.5F, -1.0F, -1.5F, -2.0F, -3.0F, -4.0F, -6.0F};

/// Only the low four bits of `code` count.
[[nodiscard]] inline float e2m1_to_float(std::uint8_t code) { return kE2m1Values[code & 15u]; }

/// Nearest e2m1 code, ties to the even code, saturating at +-6. `value` is not NaN.
[[nodiscard]] inline std::uint8_t float_to_e2m1(float value) {
  // Midpoints between neighbours; a tie goes to the even code, so midpoints above an odd code round up on
  // equality.
  const float magnitude = std::fabs(value);
  int code = 0;
  code += magnitude > 0.25F ? 1 : 0;
  code += magnitude >= 0.75F ? 1 : 0;
  code += magnitude > 1.25F ? 1 : 0;
  code += magnitude >= 1.75F ? 1 : 0;
  code += magnitude > 2.5F ? 1 : 0;
  code += magnitude >= 3.5F ? 1 : 0;
  code += magnitude > 5.0F ? 1 : 0;
  return static_cast<std::uint8_t>(code | (std::signbit(value) ? 8 : 0));
}

}  // namespace baleen
