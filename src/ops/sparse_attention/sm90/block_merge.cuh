/// The one order of arithmetic of a query's softmax, wherever its parts are computed.
///
/// A block of 64 entries has, for each head, a maximum m_b, rounded up to an integer (all counts in powers of
/// two), the weights p = bf(2^(s - m_b)) and the sum z_b of the unrounded ones. None depends on other blocks.
/// The running state takes one block after the other, in list order:
///
///     M' = max(M, m_b)    Z' = Z 2^(M - M') + z_b 2^(m_b - M')    O' = O 2^(M - M') + sum (p 2^(m_b - M')) v
///
/// Both powers have integer exponents: scaling rounds nothing, and most blocks leave M as it is. The last sum
/// is one chain of matrix instructions per dim, 16 entries each, in order. So weights may be computed by
/// other thread blocks than use them, and dims be shared among thread blocks, and the bits are the same.
#pragma once

#include "cuda/bf16_vector.cuh"
#include "cuda/ptx/bf16_pair.h"
#include "cuda/ptx/exp2.h"
#include "cuda/warp_reduce.cuh"
#include "ops/sparse_attention/sm90/tile_work.cuh"

namespace baleen::sm90 {

/// A block's weights as a thread has them: operand registers of ptx/wgmma_bf16.h, for each 16 entries.
using BlockWeights = std::uint32_t[kBlockSteps][4];

/// Of a thread's two heads (rows `row` and `row` + 8 of a group of 64).
class SoftmaxState {
 public:
  /// Takes in a block: its weights and the sums so far are brought to the common maximum. `block`: the heads'
  /// maxima and sums. All lanes of the warp take part.
  template <int kCount>
  __device__ void merge(const float2 (&block)[2], BlockWeights& weights, float (&sums)[kCount]) {
    float kept[2];
    take_in(block, weights, kept);
    scale(sums, kept);
  }

  /// The same in two steps. First what needs no sums: `kept` is what those so far are to be multiplied with.
  __device__ void take_in(const float2 (&block)[2], BlockWeights& weights, float (&kept)[2]) {
    std::uint32_t added[2];
#pragma unroll
    for (int head = 0; head < 2; ++head) {
      const float larger = fmaxf(maximum[head], block[head].x);
      kept[head] = power(maximum[head], larger);
      const float factor = power(block[head].x, larger);
      added[head] = pack_bf16(factor, factor);
      denominator[head] = __fmaf_rn(block[head].y, factor, __fmul_rn(denominator[head], kept[head]));
      maximum[head] = larger;
    }
#pragma unroll
    for (auto& step : weights) {
#pragma unroll
      for (int i = 0; i < 4; ++i) step[i] = ptx::multiply_bf16_pair(step[i], added[i % 2]);
    }
  }

  template <int kCount>
  __device__ static void scale(float (&sums)[kCount], const float (&kept)[2]) {
    if (__any_sync(kAllLanes, kept[0] != 1.0F || kept[1] != 1.0F)) {
#pragma unroll
      for (int i = 0; i < kCount; ++i) sums[i] *= kept[i % 4 / 2];
    }
  }

  float maximum[2] = {-INFINITY, -INFINITY};
  float denominator[2] = {};

 private:
  __device__ static float power(float maximum, float larger) {
    return maximum == larger ? 1.0F : ptx::exp2_approximate(maximum - larger);
  }
};

}  // namespace baleen::sm90
