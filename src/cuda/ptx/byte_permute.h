/// Bytes of a pair of words in another order, or replaced by their signs.  (PTX: prmt)
#pragma once

#include <cstdint>

namespace baleen::ptx {

/// Byte i of the result is byte `kSelector >> 4 i & 7` of (low, high); with bit 3 of that nibble set, eight
/// copies of its sign bit.
template <std::uint32_t kSelector>
__device__ inline std::uint32_t byte_permute(std::uint32_t low, std::uint32_t high = 0) {
  std::uint32_t result;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(result) : "r"(low), "r"(high), "n"(kSelector));
  return result;
}

/// The same with selectors known at run time only; their upper half does not matter.
__device__ inline std::uint32_t byte_permute(std::uint32_t low, std::uint32_t high, std::uint32_t selectors) {
  std::uint32_t result;
  asm("prmt.b32 %0, %1, %2, %3;" : "=r"(result) : "r"(low), "r"(high), "r"(selectors));
  return result;
}

}  // namespace baleen::ptx
