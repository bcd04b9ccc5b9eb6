/// Sums of a warpgroup (64 outputs of some tokens) to y: value by value, or transposed in shared memory and
/// from there by TMA.
#pragma once

#include "cuda/ptx/mbarrier.h"
#include "cuda/ptx/named_barrier.h"
#include "cuda/ptx/stmatrix.h"
#include "cuda/ptx/tma.h"
#include "ops/matmul/sm90/bf16_device.cuh"

namespace baleen::sm90 {

/// In kStagingBytes of shared memory, aligned to a swizzle's group.
constexpr int kStagingBf16Tokens = kStagingBytes / (kMmaOutputs * 2);
constexpr int kStagingF32Tokens = kStagingBytes / (kMmaOutputs * 4);

/// Accumulators [first, first + 4 kStagingBf16Tokens / 8) as rows of 64 BF16 outputs, a token each.
template <int kSums>
__device__ inline void stage_bf16(std::byte* staging, const float (&sums)[kSums], int first, int thread) {
  const int warp = thread / kWarpThreads, lane = thread % kWarpThreads;
  const int chunk = 2 * warp + lane / 8 % 2;  // 8 outputs
#pragma unroll
  for (int tokens = 0; tokens < kStagingBf16Tokens; tokens += 16) {
    std::uint32_t fragments[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int at = first + tokens / 2 + 2 * i;
      const __nv_bfloat162 pair = __floats2bfloat162_rn(sums[at], sums[at + 1]);
      fragments[i] = *reinterpret_cast<const std::uint32_t*>(&pair);
    }
    const int token = tokens + lane / 16 * 8 + lane % 8;
    ptx::stmatrix_x4_transposed(
        staging + token * kBoxRowBytes + swizzled_chunk<kBoxRowBytes>(token, chunk) * 16, fragments);
  }
}

/// Accumulators [first, first + 4 kStagingF32Tokens / 8) as rows of 32 float32 outputs: first half, second
/// half.
template <int kSums>
__device__ inline void stage_f32(std::byte* staging, const float (&sums)[kSums], int first, int thread) {
  constexpr int kRowOutputs = kBoxRowBytes / 4, kChunkOutputs = 4;
#pragma unroll
  for (int i = 0; i < kStagingF32Tokens / 2; ++i) {
    const int output = operand_row(thread, i), token = token_column(thread, i);
    const int chunk = output % kRowOutputs / kChunkOutputs;
    std::byte* row = staging + (output / kRowOutputs * kStagingF32Tokens + token) * kBoxRowBytes;
    reinterpret_cast<float*>(
        row)[swizzled_chunk<kBoxRowBytes>(token, chunk) * kChunkOutputs + output % kChunkOutputs] =
        sums[first + i];
  }
}

/// Value by value: a warp writes 8 outputs of 4 tokens at once.
template <int kSums>
__device__ inline void store_each(const Bf16Products::Product& product, const float (&sums)[kSums],
                                  int first_output, int first_token, int num_rows, int thread) {
#pragma unroll
  for (int i = 0; i < kSums; ++i) {
    const int output = first_output + operand_row(thread, i), token = first_token + token_column(thread, i);
    if (output < product.num_outputs && token < num_rows) store_output(product, token, output, sums[i]);
  }
}

/// By all threads of a warpgroup, `barrier` where they meet. y's columns `first_output` + 0 to 63, as far as
/// there are any.
template <int kSums>
__device__ inline void store_sums(const Bf16Products::Product& product, const float (&sums)[kSums],
                                  std::byte* staging, int first_output, int first_token, int num_rows,
                                  int thread, std::uint32_t barrier) {
  constexpr int kTokens = 2 * kSums;
  if (!product.y_has_map) {
    store_each(product, sums, first_output, first_token, num_rows, thread);
    return;
  }
  const auto stage_and_store = [&](auto stage, int tokens, int boxes, int box_outputs) {
#pragma unroll
    for (int begin = 0; begin < kTokens; begin += tokens) {
      if (first_token + begin >= num_rows) break;
      if (thread == 0) ptx::tma_store_wait<0>();
      ptx::named_barrier_sync(barrier, kWarpgroupThreads);
      stage(begin / 2);
      ptx::fence_proxy_async();
      ptx::named_barrier_sync(barrier, kWarpgroupThreads);
      if (thread != 0) continue;
      for (int box = 0; box < boxes; ++box) {
        ptx::tma_store(product.y_map, staging + box * tokens * kBoxRowBytes,
                       (first_output + box * box_outputs) * (kBoxRowBytes / box_outputs),
                       first_token + begin);
      }
      ptx::tma_store_commit();
    }
  };
  if (product.y_is_bf16) {
    stage_and_store([&](int first) { stage_bf16(staging, sums, first, thread); }, kStagingBf16Tokens, 1,
                    kMmaOutputs);
  } else {
    stage_and_store([&](int first) { stage_f32(staging, sums, first, thread); }, kStagingF32Tokens, 2,
                    kMmaOutputs / 2);
  }
}

}  // namespace baleen::sm90
