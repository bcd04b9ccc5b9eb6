/// The one order of arithmetic of a query's softmax, wherever its blocks are computed.
///
/// A block of 64 entries has a result of its own: for each head its maximum m_b, sum of exponentials z_b, and sums t_b of
/// BF16 weights times values, all relative to m_b. None depends on other blocks. The running state takes in one block's
/// result after the other in list order:
///
///     M' = max(M, m_b)    Z' = Z 2^(M - M') + z_b 2^(m_b - M')    O' = O 2^(M - M') + t_b 2^(m_b - M')
///
/// so blocks may be computed by one thread block or by many, and the bits are the same. Into the empty state
/// (M = -infinity, Z = 0, O = 0) the first result goes unchanged: a state is itself a result that others may follow.
#pragma once

#include "cuda/ptx/exp2.h"

namespace baleen::sm90 {

struct MergeFactors {
  float kept;   ///< of what there was
  float added;  ///< of the block's
};

/// One head's. Maxima are in powers of two.
struct SoftmaxState {
  float maximum = -INFINITY;
  float denominator = 0;

  __device__ MergeFactors merge(float block_maximum, float block_sum) {
    const float larger = fmaxf(maximum, block_maximum);
    const MergeFactors factors{maximum == larger ? 1.0F : ptx::exp2_approx(maximum - larger),
                               block_maximum == larger ? 1.0F : ptx::exp2_approx(block_maximum - larger)};
    maximum = larger;
    denominator = merged(denominator, block_sum, factors);
    return factors;
  }

  __device__ static float merged(float sum, float block_sum, MergeFactors factors) {
    return __fmaf_rn(block_sum, factors.added, __fmul_rn(sum, factors.kept));
  }
};

}  // namespace baleen::sm90
