/// The step both kernels are made of: one slice of inputs on the tensor core, and its place in the sum.
#pragma once

#include <cstdint>

#include "cuda/ptx/wgmma.h"
#include "cuda/ptx/wgmma_e4m3.h"
#include "ops/linear/fp8_products.h"

namespace baleen {

inline constexpr int kWarpgroupRows = 64;  ///< rows of the weight that one warpgroup multiplies
inline constexpr std::uint32_t kSwizzleGroupBytes = 8 * kSliceInputs;
inline constexpr int kWeightTileBytes = kTileRows * kSliceInputs;

/// Starts D [64 weight rows, kTokens] = W X^T over one slice and commits it. Tiles as the copy engine leaves them with a
/// 128-byte swizzle.
template <int kTokens>
__device__ inline void start_slice(float (&d)[kTokens / 2], const void* weights, const void* tokens) {
  constexpr int kStepBytes = 32;  // inputs of one instruction
  const std::uint64_t a = ptx::wgmma_descriptor(weights, ptx::SmemSwizzle::k128B, kSwizzleGroupBytes);
  const std::uint64_t b = ptx::wgmma_descriptor(tokens, ptx::SmemSwizzle::k128B, kSwizzleGroupBytes);
  ptx::wgmma_fence();
#pragma unroll
  for (int step = 0; step < kSliceInputs / kStepBytes; ++step) {
    const auto offset = static_cast<std::uint64_t>(step * kStepBytes / 16);
    ptx::wgmma_e4m3<kTokens>(d, a + offset, b + offset, step > 0);
  }
  ptx::wgmma_commit();
}

/// sum += slice * s_x * s_w, when the slice has been waited for. `token_scales`: of the tile's tokens, in shared memory.
template <int kTokens>
__device__ inline void add_slice(float (&sum)[kTokens / 2], float (&slice)[kTokens / 2],
                                 const float* token_scales, float weight_scale) {
  const int first_token = 2 * static_cast<int>(threadIdx.x % 4);
#pragma unroll
  for (int i = 0; i < kTokens / 2; ++i) ptx::wgmma_hold(slice[i]);
#pragma unroll
  for (int i = 0; i < kTokens / 2; i += 4) {
    const float2 s_x = *reinterpret_cast<const float2*>(token_scales + 2 * i + first_token);
    const float scale[2] = {s_x.x * weight_scale, s_x.y * weight_scale};
#pragma unroll
    for (int j = 0; j < 4; ++j) sum[i + j] = fmaf(slice[i + j], scale[j % 2], sum[i + j]);
  }
}

}  // namespace baleen
