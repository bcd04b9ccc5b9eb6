/// Arithmetic on two BF16 values in a word.  (PTX: mul.bf16x2; before sm_90 fma.bf16x2)
#pragma once

#include <cstdint>

namespace baleen::ptx {

/// Rounded to nearest; subnormals count.
__device__ inline std::uint32_t multiply_bf16_pair(std::uint32_t a, std::uint32_t b) {
  std::uint32_t product;
#if __CUDA_ARCH__ >= 900
  asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(product) : "r"(a), "r"(b));
#else
  constexpr std::uint32_t kMinusZeros =
      0x80008000u;  // what changes no product, zeros of either sign included
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(product) : "r"(a), "r"(b), "r"(kMinusZeros));
#endif
  return product;
}

}  // namespace baleen::ptx
