/// bfloat16: the upper half of a float32, rounded to nearest even. NaN stays NaN.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace baleen {

using Bf16Bits = std::uint16_t;

[[nodiscard]] inline float bf16_to_float(Bf16Bits bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

[[nodiscard]] inline Bf16Bits float_to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if (std::isnan(value))
    return static_cast<Bf16Bits>((bits >> 16) | 0x0040u);  // quiet, payload's top bits kept
  return static_cast<Bf16Bits>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}

/// `value` rounded to the nearest bfloat16.
[[nodiscard]] inline float round_bf16(float value) { return bf16_to_float(float_to_bf16(value)); }

}  // namespace baleen
