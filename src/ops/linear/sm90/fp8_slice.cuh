/// Products of slices of inputs on the tensor core, as both kernels take them.
#pragma once

#include <cstdint>

#include "cuda/ptx/wgmma.h"
#include "cuda/ptx/wgmma_e4m3.h"
#include "ops/linear/sm90/fp8_products.h"

namespace baleen::sm90::linear_kernels {

inline constexpr int kWarpgroupRows = 64;  ///< rows of A that one warpgroup multiplies
inline constexpr std::uint32_t kSwizzleGroupBytes = 8 * kSliceInputs;

/// Descriptor of a tile of a slice, as TMA leaves it with a 128-byte swizzle.
__device__ inline std::uint64_t slice_descriptor(const void* tile) {
  return ptx::wgmma_descriptor(tile, ptx::SmemSwizzle::k128B, kSwizzleGroupBytes);
}

/// Starts D [64, kColumns] = A B^T over one slice and commits it. The bits of a sum are the same whichever of
/// weights and tokens is A.
template <int kColumns>
__device__ inline void start_slice(float (&d)[kColumns / 2], std::uint64_t a, std::uint64_t b) {
  constexpr int kStepBytes = 32;  // inputs of one instruction
  ptx::wgmma_fence();
#pragma unroll
  for (int step = 0; step < kSliceInputs / kStepBytes; ++step) {
    const auto offset = static_cast<std::uint64_t>(step * kStepBytes / 16);
    ptx::wgmma_e4m3<kColumns>(d, a + offset, b + offset, step > 0);
  }
  ptx::wgmma_commit();
}

/// Before the first use of a product that has been waited for.
template <int kSums>
__device__ inline void hold_slice(float (&slice)[kSums]) {
#pragma unroll
  for (int i = 0; i < kSums; ++i) ptx::wgmma_hold(slice[i]);
}

}  // namespace baleen::sm90::linear_kernels
