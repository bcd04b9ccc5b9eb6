/// Eight channels of a row that leaves a hyper-connection site: the weighted sum of the streams, and its
/// norm.
#pragma once

#include <cstdint>

#include "cuda/bf16_vector.cuh"
#include "cuda/row_quantise.cuh"
#include "ops/hc_pre/sm90/hc_site_args.h"
#include "ops/hc_pre/sm90/hc_slices.cuh"

namespace baleen::sm90 {

/// u = bf(sum_j pre_j x_j); returns the sum of the squares.
__device__ inline float weigh_streams(const float4& pre, const uint4 (&x)[kHcStreams], uint4& u) {
  const float weights[kHcStreams] = {pre.x, pre.y, pre.z, pre.w};
  float sum[8] = {};
#pragma unroll
  for (int j = 0; j < kHcStreams; ++j) {
    float values[8];
    unpack_bf16(x[j], values);
#pragma unroll
    for (int c = 0; c < 8; ++c) sum[c] = fmaf(weights[j], values[c], sum[c]);
  }
  u = pack_bf16(sum);
  unpack_bf16(u, sum);
  float squares = 0.0F;
#pragma unroll
  for (int c = 0; c < 8; ++c) squares = fmaf(sum[c], sum[c], squares);
  return squares;
}

/// y = bf(w (u inverse)) from column `column` on, with its codes. Sixteen neighbouring lanes have the 128
/// channels that share a scale; all lanes of the warp take part, those that are not `valid` write nothing.
__device__ inline void write_normed(const HcSiteArgs& args, int width, std::int64_t row, int column,
                                    const uint4& u, float inverse, const float* weight, bool valid) {
  float y[8];
  unpack_bf16(u, y);
#pragma unroll
  for (int c = 0; c < 8; ++c) y[c] = weight[c] * (y[c] * inverse);
  const uint4 words = pack_bf16(y);
  if (valid) *reinterpret_cast<uint4*>(args.y + row * args.y_stride + column) = words;
  if (args.y_fp8.codes == nullptr) return;
  unpack_bf16(words, y);
  const Fp8Piece<8> piece = quantise_fp8_block(y);
  if (valid) store_fp8_piece(args.y_fp8, row, width, column, piece);
}

}  // namespace baleen::sm90
