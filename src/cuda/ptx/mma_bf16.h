/// Matrix products of one warp, all operands in registers.  (PTX: mma.sync.m16n8k16, BF16 to float32)
#pragma once

#include <cstdint>

namespace baleen::ptx {

/// d += a b with a [16, 16], b [16, 8] and d [16, 8]. Lane 4 g + q holds, two values to a word:
///   a[0] (row g, columns 2q, 2q+1), a[1] (row g + 8, the same columns), a[2], a[3] (as these, columns + 8);
///   b[0] (rows 2q, 2q+1 of column g), b[1] (rows + 8);   d[0], d[1] (row g, columns 2q, 2q+1), d[2], d[3] (row g + 8).
__device__ inline void mma_16x8x16(float (&d)[4], std::uint32_t a0, std::uint32_t a1, std::uint32_t a2,
                                   std::uint32_t a3, std::uint32_t b0, std::uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

}  // namespace baleen::ptx
