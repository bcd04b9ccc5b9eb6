/// IEEE half precision, which foreign checkpoints store.
#pragma once

#include <bit>
#include <cstdint>

namespace baleen {

using F16Bits = std::uint16_t;

/// Exact.
[[nodiscard]] inline float f16_to_float(F16Bits bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000U) << 16;
  const std::uint32_t rest = bits & 0x7FFFU;
  if (rest >= 0x7C00U) return std::bit_cast<float>(sign | 0x7F800000U | (rest & 0x3FFU) << 13);
  // Read as float32 the exponent is 112 too small, also of subnormals: the product is exact.
  return std::bit_cast<float>(sign |
                              std::bit_cast<std::uint32_t>(std::bit_cast<float>(rest << 13) * 0x1p112F));
}

}  // namespace baleen
