/// Warpgroup matrix instructions on BF16 operands, 16 deep, float32 sums: D [64, N] += A [64, 16] B [N,
/// 16]^T. (PTX: wgmma.mma_async.m64nNk16.f32.bf16.bf16)
///
/// Thread t of the warpgroup, warp w = t / 32, lane l = t % 32, holds D rows 16 w + l / 4 (i % 4 < 2) and
/// that + 8, columns 8 (i / 4) + 2 (l % 4) + i % 2 in d[i].
/// A from registers: values 2 (l % 4) and the next of row l / 4 in a[0], of row l / 4 + 8 in a[1]; values 8 +
/// 2 (l % 4) and the next of the same rows in a[2], a[3].
#pragma once

#include <cstdint>

#include "cuda/ptx/wgmma_registers.h"

namespace baleen::ptx {

/// Both operands in shared memory, by descriptor (ptx/wgmma.h). `accumulate` false: D = A B^T. kTransposed: B
/// lies with its N axis contiguous.
template <int kN, bool kTransposed = false>
__device__ void wgmma_bf16(float (&d)[kN / 2], std::uint64_t a, std::uint64_t b, bool accumulate);

/// A in registers.
template <int kN, bool kTransposed = false>
__device__ void wgmma_bf16(float (&d)[kN / 2], const std::uint32_t (&a)[4], std::uint64_t b, bool accumulate);

#define BALEEN_WGMMA_BF16(N, TRANSPOSED, T, COUNT, P0, P1, P2, P3, P4, P5)                                 \
  template <>                                                                                              \
  __device__ inline void wgmma_bf16<N, TRANSPOSED>(float(&d)[N / 2], std::uint64_t a, std::uint64_t b,     \
                                                   bool accumulate) {                                      \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" P2                                                   \
                 ", 0;\n"                                                                                  \
                 "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32.bf16.bf16 {" BALEEN_NAMES_##COUNT         \
                 "}, %" P0 ", %" P1 ", p, 1, 1, 0, " T ";\n}\n"                                            \
                 : BALEEN_REGISTERS_##COUNT(0)                                                             \
                 : "l"(a), "l"(b), "r"(static_cast<int>(accumulate)));                                     \
  }                                                                                                        \
  template <>                                                                                              \
  __device__ inline void wgmma_bf16<N, TRANSPOSED>(float(&d)[N / 2], const std::uint32_t(&a)[4],           \
                                                   std::uint64_t b, bool accumulate) {                     \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" P5                                                   \
                 ", 0;\n"                                                                                  \
                 "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32.bf16.bf16 {" BALEEN_NAMES_##COUNT         \
                 "}, {%" P0 ", %" P1 ", %" P2 ", %" P3 "}, %" P4 ", p, 1, 1, " T ";\n}\n"                  \
                 : BALEEN_REGISTERS_##COUNT(0)                                                             \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(accumulate))); \
  }

BALEEN_WGMMA_BF16(8, false, "0", 4, "4", "5", "6", "7", "8", "9")
BALEEN_WGMMA_BF16(8, true, "1", 4, "4", "5", "6", "7", "8", "9")
BALEEN_WGMMA_BF16(16, false, "0", 8, "8", "9", "10", "11", "12", "13")
BALEEN_WGMMA_BF16(16, true, "1", 8, "8", "9", "10", "11", "12", "13")
BALEEN_WGMMA_BF16(32, false, "0", 16, "16", "17", "18", "19", "20", "21")
BALEEN_WGMMA_BF16(32, true, "1", 16, "16", "17", "18", "19", "20", "21")
BALEEN_WGMMA_BF16(40, false, "0", 20, "20", "21", "22", "23", "24", "25")
BALEEN_WGMMA_BF16(48, false, "0", 24, "24", "25", "26", "27", "28", "29")
BALEEN_WGMMA_BF16(56, false, "0", 28, "28", "29", "30", "31", "32", "33")
BALEEN_WGMMA_BF16(64, false, "0", 32, "32", "33", "34", "35", "36", "37")
BALEEN_WGMMA_BF16(64, true, "1", 32, "32", "33", "34", "35", "36", "37")
BALEEN_WGMMA_BF16(72, false, "0", 36, "36", "37", "38", "39", "40", "41")
BALEEN_WGMMA_BF16(96, false, "0", 48, "48", "49", "50", "51", "52", "53")
BALEEN_WGMMA_BF16(96, true, "1", 48, "48", "49", "50", "51", "52", "53")
BALEEN_WGMMA_BF16(128, false, "0", 64, "64", "65", "66", "67", "68", "69")
BALEEN_WGMMA_BF16(128, true, "1", 64, "64", "65", "66", "67", "68", "69")
BALEEN_WGMMA_BF16(192, false, "0", 96, "96", "97", "98", "99", "100", "101")
BALEEN_WGMMA_BF16(192, true, "1", 96, "96", "97", "98", "99", "100", "101")
BALEEN_WGMMA_BF16(256, false, "0", 128, "128", "129", "130", "131", "132", "133")
BALEEN_WGMMA_BF16(256, true, "1", 128, "128", "129", "130", "131", "132", "133")

#undef BALEEN_WGMMA_BF16

}  // namespace baleen::ptx
