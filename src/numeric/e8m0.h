/// e8m0 scales: one byte b means 2^(b - 127); 255 is NaN, there is no zero and no sign.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

namespace baleen {

inline constexpr std::uint8_t kE8m0NaN = 255;
inline constexpr int kE8m0Bias = 127;

[[nodiscard]] inline float e8m0_to_float(std::uint8_t code) {
  if (code == kE8m0NaN) return std::numeric_limits<float>::quiet_NaN();
  if (code == 0) return 0x1p-127F;  // subnormal in float32
  return std::bit_cast<float>(static_cast<std::uint32_t>(code) << 23);
}

/// Code of the smallest power of two that is not below x, which is positive, finite and normal.
[[nodiscard]] inline std::uint8_t e8m0_at_least(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  return static_cast<std::uint8_t>((bits >> 23 & 0xFFu) + ((bits & 0x7FFFFFu) != 0 ? 1 : 0));
}

}  // namespace baleen
