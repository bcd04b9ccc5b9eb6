/// Warpgroup matrix instructions on E4M3 operands, 32 deep, float32 sums: D [64, N] += A [64, 32] B [N,
/// 32]^T. (PTX: wgmma.mma_async.m64nNk32.f32.e4m3.e4m3)
///
/// Thread t of the warpgroup, warp w = t / 32, lane l = t % 32, holds D rows 16 w + l / 4 (i % 4 < 2) and
/// that + 8, columns 8 (i / 4) + 2 (l % 4) + i % 2 in d[i].
/// A from registers: bytes 4 (l % 4) .. + 3 of row l / 4 in a[0], of row l / 4 + 8 in a[1]; bytes 16 + 4 (l %
/// 4) .. of the same rows in a[2], a[3].
#pragma once

#include <cstdint>

#include "cuda/ptx/wgmma_registers.h"

namespace baleen::ptx {

/// Both operands in shared memory, by descriptor (ptx/wgmma.h). `accumulate` false: D = A B^T.
template <int kN>
__device__ void wgmma_e4m3(float (&d)[kN / 2], std::uint64_t a, std::uint64_t b, bool accumulate);

/// A in registers.
template <int kN>
__device__ void wgmma_e4m3(float (&d)[kN / 2], const std::uint32_t (&a)[4], std::uint64_t b, bool accumulate);

#define BALEEN_WGMMA_E4M3(N, COUNT, P0, P1, P2, P3, P4, P5)                                                \
  template <>                                                                                              \
  __device__ inline void wgmma_e4m3<N>(float(&d)[N / 2], std::uint64_t a, std::uint64_t b,                 \
                                       bool accumulate) {                                                  \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" P2                                                   \
                 ", 0;\n"                                                                                  \
                 "wgmma.mma_async.sync.aligned.m64n" #N "k32.f32.e4m3.e4m3 {" BALEEN_NAMES_##COUNT         \
                 "}, %" P0 ", %" P1 ", p, 1, 1;\n}\n"                                                      \
                 : BALEEN_REGISTERS_##COUNT(0)                                                             \
                 : "l"(a), "l"(b), "r"(static_cast<int>(accumulate)));                                     \
  }                                                                                                        \
  template <>                                                                                              \
  __device__ inline void wgmma_e4m3<N>(float(&d)[N / 2], const std::uint32_t(&a)[4], std::uint64_t b,      \
                                       bool accumulate) {                                                  \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" P5                                                   \
                 ", 0;\n"                                                                                  \
                 "wgmma.mma_async.sync.aligned.m64n" #N "k32.f32.e4m3.e4m3 {" BALEEN_NAMES_##COUNT         \
                 "}, {%" P0 ", %" P1 ", %" P2 ", %" P3 "}, %" P4 ", p, 1, 1;\n}\n"                         \
                 : BALEEN_REGISTERS_##COUNT(0)                                                             \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(static_cast<int>(accumulate))); \
  }

BALEEN_WGMMA_E4M3(8, 4, "4", "5", "6", "7", "8", "9")
BALEEN_WGMMA_E4M3(16, 8, "8", "9", "10", "11", "12", "13")
BALEEN_WGMMA_E4M3(32, 16, "16", "17", "18", "19", "20", "21")
BALEEN_WGMMA_E4M3(64, 32, "32", "33", "34", "35", "36", "37")
BALEEN_WGMMA_E4M3(96, 48, "48", "49", "50", "51", "52", "53")
BALEEN_WGMMA_E4M3(112, 56, "56", "57", "58", "59", "60", "61")
BALEEN_WGMMA_E4M3(128, 64, "64", "65", "66", "67", "68", "69")
BALEEN_WGMMA_E4M3(192, 96, "96", "97", "98", "99", "100", "101")
BALEEN_WGMMA_E4M3(256, 128, "128", "129", "130", "131", "132", "133")

#undef BALEEN_WGMMA_E4M3

}  // namespace baleen::ptx
