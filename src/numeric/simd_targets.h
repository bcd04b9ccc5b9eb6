/// Which instruction sets SIMD files are compiled for; included before Highway. Highway picks the best one
/// the machine has at run time. On x86: SSE4 (the build's own, so that every machine starts), AVX2, and
/// AVX-512; other levels gain nothing there and would lengthen the build. On Arm: NEON; kernels keep vectors
/// in arrays, which the sizeless types of SVE do not allow.
#pragma once

#if defined(__x86_64__)
#define HWY_DISABLED_TARGETS HWY_SSSE3
#elif defined(__aarch64__)
#define HWY_DISABLED_TARGETS (HWY_SVE | HWY_SVE2 | HWY_SVE_256 | HWY_SVE2_128)
#endif
