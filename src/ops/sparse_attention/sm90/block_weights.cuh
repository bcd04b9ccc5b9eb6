/// From a block's scores to its weights, as a warpgroup holds them; see block_merge.cuh.
#pragma once

#include <cmath>

#include "cuda/ptx/exp2.h"
#include "cuda/warp_reduce.cuh"
#include "ops/sparse_attention/sm90/block_merge.cuh"

namespace baleen::sm90 {

/// `scores` of 64 heads x 64 entries, of which the first `num_valid` exist, become weights before rounding.
/// The result is the maximum and the sum of the weights for each of a thread's two heads. Whole warps.
__device__ inline void weigh_scores(float (&scores)[kTileSums], int num_valid, float scale_log2,
                                    float2 (&softmax)[2]) {
  if (num_valid < kBlockEntries) {
    const int lane = static_cast<int>(threadIdx.x) % kWarpLanes;
#pragma unroll
    for (int i = 0; i < kTileSums; ++i) {
      if (8 * (i / 4) + 2 * (lane % 4) + i % 2 >= num_valid) scores[i] = -INFINITY;
    }
  }
#pragma unroll
  for (int head = 0; head < 2; ++head) {
    float maximum = -INFINITY;
#pragma unroll
    for (int i = 2 * head; i < kTileSums; i += 4) maximum = fmaxf(maximum, fmaxf(scores[i], scores[i + 1]));
    maximum = ceilf(warp_max<4>(maximum) * scale_log2);
    float sum = 0;
#pragma unroll
    for (int i = 2 * head; i < kTileSums; i += i % 2 == 0 ? 1 : 3) {
      scores[i] = ptx::exp2_approximate(fmaf(scores[i], scale_log2, -maximum));
      sum += scores[i];
    }
    sum = warp_sum<4>(sum);
    softmax[head] = {maximum, sum};
  }
}

/// Operand registers of the 16 entries whose weights begin at `values`.
__device__ inline uint4 pack_weights(const float* values) {
  return {pack_bf16(values[0], values[1]), pack_bf16(values[2], values[3]), pack_bf16(values[4], values[5]),
          pack_bf16(values[6], values[7])};
}

}  // namespace baleen::sm90
