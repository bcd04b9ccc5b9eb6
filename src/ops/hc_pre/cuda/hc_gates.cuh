/// The small arithmetic of a hyper-connection site, for one token in one thread.
/// (source: forward pass 4.1, 4.2)
#pragma once

#include "cuda/ptx/approximate.h"
#include "ops/hc_pre/cuda/hc_slices.cuh"

namespace baleen::BALEEN_ARCH {

__device__ inline float sigmoid(float x) { return ptx::reciprocal(1.0F + expf(-x)); }

/// c <- sinkhorn(c), [source][destination].
///
/// A step divides rows or columns by their sums; its latency is what counts, since nothing hides it when
/// there is one token. So a step's sums are taken of products with the inverses of the step before, not of
/// the quotients, which are formed beside.
__device__ inline void sinkhorn(float (&c)[kHcStreams][kHcStreams], int iterations, float eps) {
  constexpr int n = kHcStreams;
  float row[n], column[n];  // inverses of sums
#pragma unroll
  for (int j = 0; j < n; ++j) {
    float largest = c[j][0];
#pragma unroll
    for (int k = 1; k < n; ++k) largest = fmaxf(largest, c[j][k]);
    float sum = 0.0F;
#pragma unroll
    for (int k = 0; k < n; ++k) sum += c[j][k] = expf(c[j][k] - largest);
    const float inverse = ptx::reciprocal(sum);
#pragma unroll
    for (int k = 0; k < n; ++k) c[j][k] = fmaf(c[j][k], inverse, eps);
  }
#pragma unroll
  for (int k = 0; k < n; ++k) {
    float sum = eps;
#pragma unroll
    for (int j = 0; j < n; ++j) sum += c[j][k];
    column[k] = ptx::reciprocal(sum);
  }
#pragma unroll 1
  for (int i = 1; i < iterations; ++i) {
#pragma unroll
    for (int j = 0; j < n; ++j) {
      float sum = eps;
#pragma unroll
      for (int k = 0; k < n; ++k) {
        sum = fmaf(c[j][k], column[k], sum);
        c[j][k] *= column[k];
      }
      row[j] = ptx::reciprocal(sum);
    }
#pragma unroll
    for (int k = 0; k < n; ++k) {
      float sum = eps;
#pragma unroll
      for (int j = 0; j < n; ++j) {
        sum = fmaf(c[j][k], row[j], sum);
        c[j][k] *= row[j];
      }
      column[k] = ptx::reciprocal(sum);
    }
  }
#pragma unroll
  for (int j = 0; j < n; ++j) {
#pragma unroll
    for (int k = 0; k < n; ++k) c[j][k] *= column[k];
  }
}

/// The same from logits [4, 4] to `comb` in memory.
__device__ inline void write_comb(const float* logits, int iterations, float eps, float* comb) {
  constexpr int n = kHcStreams;
  float c[n][n];
#pragma unroll
  for (int j = 0; j < n; ++j) {
    const float4 row = *reinterpret_cast<const float4*>(logits + j * n);
    c[j][0] = row.x, c[j][1] = row.y, c[j][2] = row.z, c[j][3] = row.w;
  }
  sinkhorn(c, iterations, eps);
#pragma unroll
  for (int j = 0; j < n; ++j) {
    *reinterpret_cast<float4*>(comb + j * n) = {c[j][0], c[j][1], c[j][2], c[j][3]};
  }
}

}  // namespace baleen::BALEEN_ARCH
