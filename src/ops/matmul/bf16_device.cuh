/// What the kernels of BF16 products share on the device.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "cuda/ptx/wgmma.h"
#include "cuda/ptx/wgmma_bf16.h"
#include "ops/matmul/bf16_products.h"

namespace baleen {

/// Rows of 64 BF16 inputs or 128 FP8 inputs, swizzled as TMA does.
constexpr int kBoxRowBytes = 128;
constexpr int kBoxInputs = 64;  // BF16
constexpr int kBoxesPerSlice = kSliceInputs / kBoxInputs;
constexpr int kGroupRows = 8;  // the swizzle repeats
constexpr int kGroupBytes = kGroupRows * kBoxRowBytes;
constexpr int kMmaInputs = 16;  // of one tensor core instruction
constexpr int kMmaBytes = 2 * kMmaInputs;
constexpr int kMmasPerBox = kBoxInputs / kMmaInputs;
constexpr int kMmaOutputs = 64;  // weight rows of one instruction
constexpr int kWarpgroupThreads = 128;

/// Which product a tile belongs to.
__device__ inline const Bf16Products::Product& product_of(const Bf16Products& work, int tile) {
  int which = work.num_products - 1;
  while (which > 0 && work.products[which].first_tile > tile) --which;
  return work.products[which];
}

__device__ inline void store_output(const Bf16Products::Product& product, int token, int output,
                                    float value) {
  const std::int64_t at = token * product.y_stride + output;
  if (product.y_is_bf16) {
    reinterpret_cast<__nv_bfloat16*>(product.y)[at] = __float2bfloat16_rn(value);
  } else {
    reinterpret_cast<float*>(product.y)[at] = value;
  }
}

/// d (+)= weights x^T over 64 inputs. Both boxes lie in shared memory, 1024-byte aligned.
template <int kTokens>
__device__ inline void multiply_box(float (&d)[kTokens / 2], const std::byte* weights, const std::byte* x,
                                    bool accumulate) {
  const std::uint64_t a = ptx::wgmma_descriptor(weights, ptx::SmemSwizzle::k128B, kGroupBytes);
  const std::uint64_t b = ptx::wgmma_descriptor(x, ptx::SmemSwizzle::k128B, kGroupBytes);
#pragma unroll
  for (int i = 0; i < kMmasPerBox; ++i) {
    constexpr int kStep = kMmaBytes / 16;
    ptx::wgmma_bf16<kTokens>(d, a + i * kStep, b + i * kStep, accumulate || i > 0);
  }
}

template <int kCount>
__device__ inline void hold(float (&d)[kCount]) {
#pragma unroll
  for (float& value : d) ptx::wgmma_hold(value);
}

}  // namespace baleen
