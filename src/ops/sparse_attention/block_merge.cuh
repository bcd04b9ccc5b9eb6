/// The one order of arithmetic of a query's softmax, wherever its parts are computed.
///
/// A block of 64 entries has, for each head, a maximum m_b, rounded up to an integer (all counts in powers of two), the
/// weights p = bf(2^(s - m_b)) and the sum z_b of the unrounded ones. None depends on other blocks. The running state takes
/// one block after the other, in list order:
///
///     M' = max(M, m_b)    Z' = Z 2^(M - M') + z_b 2^(m_b - M')    O' = O 2^(M - M') + sum (p 2^(m_b - M')) v
///
/// Both powers have integer exponents: scaling rounds nothing, and most blocks leave M as it is. The last sum is one chain
/// of matrix instructions per dim, 16 entries each, in order. So weights may be computed by other thread blocks than use
/// them, and dims be shared among thread blocks, and the bits are the same.
#pragma once

#include "cuda/bf16_vector.cuh"
#include "cuda/ptx/bf16_pair.h"
#include "cuda/ptx/exp2.h"
#include "cuda/warp_reduce.cuh"
#include "ops/sparse_attention/tile_work.cuh"

namespace baleen::sm90 {

/// A block's weights as a thread has them: operand registers of ptx/wgmma_bf16.h, for each 16 entries.
using BlockWeights = std::uint32_t[kBlockSteps][4];

/// What a block's weights, and the sums so far, are multiplied with: for a thread's two heads.
class MergeFactors {
 public:
  __device__ MergeFactors(const float (&kept)[2], const float (&added)[2])
      : kept_{kept[0], kept[1]}, added_{pack_bf16(added[0], added[0]), pack_bf16(added[1], added[1])} {}

  __device__ void scale(BlockWeights& weights) const {
#pragma unroll
    for (auto& step : weights) {
#pragma unroll
      for (int i = 0; i < 4; ++i) step[i] = ptx::multiply_bf16_pair(step[i], added_[i % 2]);
    }
  }
  /// Most blocks leave the sums of all of a warp's lanes, which take part, as they are.
  template <int kCount>
  __device__ void scale(float (&sums)[kCount]) const {
    if (!__any_sync(kAllLanes, kept_[0] != 1.0F || kept_[1] != 1.0F)) return;
#pragma unroll
    for (int i = 0; i < kCount; ++i) sums[i] *= kept_[i % 4 / 2];
  }

 private:
  float kept_[2];
  std::uint32_t added_[2];
};

/// Of a thread's two heads (rows `row` and `row` + 8 of a group of 64).
class SoftmaxState {
 public:
  /// Takes in a block, whose heads' maxima and sums are `block`. Its weights and the sums so far are the caller's to scale.
  [[nodiscard]] __device__ MergeFactors merge(const float2 (&block)[2]) {
    float kept[2], added[2];
#pragma unroll
    for (int head = 0; head < 2; ++head) {
      const float larger = fmaxf(maximum[head], block[head].x);
      kept[head] = power(maximum[head], larger);
      added[head] = power(block[head].x, larger);
      denominator[head] = __fmaf_rn(block[head].y, added[head], __fmul_rn(denominator[head], kept[head]));
      maximum[head] = larger;
    }
    return {kept, added};
  }

  float maximum[2] = {-INFINITY, -INFINITY};
  float denominator[2] = {};

 private:
  __device__ static float power(float maximum, float larger) {
    return maximum == larger ? 1.0F : ptx::exp2_approximate(maximum - larger);
  }
};

}  // namespace baleen::sm90
