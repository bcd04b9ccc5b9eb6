/// Out of a half-block: the new value of one stream in some channels of a token.
/// (source: forward pass 4.3)
#pragma once

#include "ops/hc_pre/sm90/hc_slices.cuh"

namespace baleen::sm90 {

/// sum = post f + sum_j comb[j] x[j], not yet rounded; `post` and `comb` [source] of the stream that is
/// computed.
template <int kChannels>
__device__ inline void leave_half_block(float post, const float (&comb)[kHcStreams],
                                        const float (&f)[kChannels], const float (&x)[kHcStreams][kChannels],
                                        float (&sum)[kChannels]) {
#pragma unroll
  for (int c = 0; c < kChannels; ++c) sum[c] = post * f[c];
#pragma unroll
  for (int j = 0; j < kHcStreams; ++j) {
#pragma unroll
    for (int c = 0; c < kChannels; ++c) sum[c] = fmaf(comb[j], x[j][c], sum[c]);
  }
}

}  // namespace baleen::sm90
