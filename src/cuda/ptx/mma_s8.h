/// Integer matrix products of one warp, all operands in registers.  (PTX: mma.sync.m16n8k32, s8 to s32)
#pragma once

#include <cstdint>

namespace baleen::ptx {

/// d = a b + c with a [16, 32], b [32, 8] of s8 and d [16, 8] of s32, exactly (modulo 2^32). Lane 4 g + q
/// holds, four values to a word:
///   a[0] (row g, columns 4q .. 4q+3), a[1] (row g + 8, the same columns), a[2], a[3] (as these, columns +
///   16); b[0] (rows 4q .. 4q+3 of column g), b[1] (rows + 16);
///   d[0], d[1] (row g, columns 2q, 2q+1), d[2], d[3] (row g + 8).
/// c may be d.
__device__ inline void mma_16x8x32_s8(std::int32_t (&d)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                      std::uint32_t b1, const std::int32_t (&c)[4]) {
  asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%10, %11, %12, %13};"
      : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "r"(c[0]), "r"(c[1]), "r"(c[2]),
        "r"(c[3]));
}

/// The same with all elements of c `initial`.
__device__ inline void mma_16x8x32_s8(std::int32_t (&d)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                      std::uint32_t b1, std::int32_t initial) {
  asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%10, %10, %10, %10};"
      : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "r"(initial));
}

}  // namespace baleen::ptx
