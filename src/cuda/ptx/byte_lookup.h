/// Tables of eight bytes in two registers, four look-ups an instruction.  (PTX: prmt)
#pragma once

#include <cstdint>

namespace baleen::ptx {

/// Byte i of the result is byte `indices >> 4 i & 7` of (low, high). The fourth bit of each of the four lowest nibbles of
/// `indices` is clear; the upper half does not count.
__device__ inline std::uint32_t byte_lookup(std::uint32_t low, std::uint32_t high, std::uint32_t indices) {
  std::uint32_t result;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(result) : "r"(low), "r"(high), "r"(indices));
  return result;
}

}  // namespace baleen::ptx
