/// float8 e4m3fn: sign, 4 exponent bits (bias 7), 3 mantissa bits; no infinities, NaN is 0x7F / 0xFF, maximum
/// 448.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace baleen {

inline constexpr float kE4m3Max = 448.0F;

[[nodiscard]] inline float e4m3_to_float(std::uint8_t code) {
  const float sign = (code & 0x80u) != 0 ? -1.0F : 1.0F;
  const int exponent = (code >> 3) & 15;
  const int mantissa = code & 7;
  if (exponent == 15 && mantissa == 7) return std::numeric_limits<float>::quiet_NaN();
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(mantissa), -9);
  return sign * std::ldexp(static_cast<float>(8 + mantissa), exponent - 10);
}

/// Nearest e4m3 code, ties to even, saturating at +-448; NaN gives 0x7F.
[[nodiscard]] inline std::uint8_t float_to_e4m3(float value) {
  if (std::isnan(value)) return 0x7F;
  const auto sign = static_cast<std::uint8_t>(std::signbit(value) ? 0x80 : 0);
  const float magnitude = std::fmin(std::fabs(value), kE4m3Max);
  if (magnitude < 0x1p-6F) {
    // Subnormals are multiples of 2^-9; eight of them is the first normal, whose code is 8: no special case.
    return static_cast<std::uint8_t>(sign | static_cast<int>(std::nearbyint(magnitude * 0x1p9F)));
  }
  auto bits = std::bit_cast<std::uint32_t>(magnitude);
  bits += 0x7FFFFu + ((bits >> 20) & 1u);  // to nearest even at mantissa bit 20
  return static_cast<std::uint8_t>(sign | ((bits >> 20) - ((127u - 7u) << 3)));
}

}  // namespace baleen
