/// Arithmetic on two BF16 values in a word.  (PTX: mul.bf16x2)
#pragma once

#include <cstdint>

namespace baleen::ptx {

/// Rounded to nearest; subnormals count.
__device__ inline std::uint32_t multiply_bf16_pair(std::uint32_t a, std::uint32_t b) {
  std::uint32_t product;
  asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(product) : "r"(a), "r"(b));
  return product;
}

}  // namespace baleen::ptx
