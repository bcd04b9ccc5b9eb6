/// Which instruction sets SIMD files are compiled for; included before Highway. On x86: the baseline (SSE2, so that
/// every machine starts), AVX2, and AVX-512; Highway picks the best one the machine has at run time. The levels between
/// gain nothing there and would lengthen the build.
#pragma once

#if defined(__x86_64__)
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4)
#endif
