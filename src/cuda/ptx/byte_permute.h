/// Bytes of a word in another order, or replaced by their signs.  (PTX: prmt)
}

/// Bytes picked from a pair of registers.  (PTX: prmt)
#pragma once

#include <cstdint>

namespace baleen::ptx {

/// Byte i of the result is byte `kSelector >> 4 i & 7` of (low, high); with bit 3 of that nibble set, eight copies of its
/// sign bit.
template <std::uint32_t kSelector>
__device__ inline std::uint32_t byte_permute(std::uint32_t low, std::uint32_t high = 0) {
  std::uint32_t result;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(result) : "r"(low), "r"(high), "n"(kSelector));
  return result;
}

/// Byte i of the result is the one of `low` (0 to 3) and `high` (4 to 7) that nibble i of `selectors` names; the upper half of
/// `selectors` does not matter, and bit 3 of a nibble has to be 0.
__device__ inline std::uint32_t byte_permute(std::uint32_t low, std::uint32_t high, std::uint32_t selectors) {
  std::uint32_t bytes;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(bytes) : "r"(low), "r"(high), "r"(selectors));
  return bytes;
}

}  // namespace baleen::ptx
