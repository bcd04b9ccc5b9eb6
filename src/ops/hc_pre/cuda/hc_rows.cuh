/// The second kernel of a hyper-connection site (hc_site.cuh): a row a block. It adds up the sums of all
/// ranks and does the rest, Sinkhorn in a warp of its own beside the weighted sum of the streams and its
/// norm.
#pragma once

#include <cstdint>

#include "cuda/bf16_vector.cuh"
#include "cuda/ptx/grid_dependency.h"
#include "cuda/ptx/named_barrier.h"
#include "cuda/scale_group.cuh"
#include "cuda/warp_reduce.cuh"
#include "ops/hc_pre/cuda/hc_gates.cuh"
#include "ops/hc_pre/cuda/hc_products.cuh"
#include "ops/hc_pre/cuda/hc_site_args.h"
#include "ops/hc_pre/cuda/hc_slices.cuh"
#include "ops/rms_norm/cuda/inverse_rms.cuh"

namespace baleen::BALEEN_ARCH {

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
  const Fp8Piece<8> piece = quantise_fp8_group(y);
  if (valid) store_fp8_piece(args.y_fp8, row, width, column, piece);
}

inline constexpr int kHcRowsThreads = kHcStreamThreads + kWarpLanes;
/// Where the threads of the streams wait for the gates, and for each other.
inline constexpr std::uint32_t kGatesBarrier = 2, kStreamBarrier = 1;

/// kNorm: `args.y` is the norm of the weighted sum; otherwise the sum itself.
template <int kWidth, bool kNorm>
__global__ void __launch_bounds__(kHcRowsThreads)
    hc_rows_kernel(const __grid_constant__ HcSiteArgs args, const float* sums, NextAtOnce order) {
  constexpr int n = kHcStreams;
  constexpr int kMaxChannels = kWidth > 0 ? kWidth : kHcMaxWidth, kChannelsAtOnce = 8 * kHcStreamThreads;
  constexpr int kPieces = (kMaxChannels + kChannelsAtOnce - 1) / kChannelsAtOnce;  // of eight, of a thread
  // Whose sums are on their way together: all of them, where their number is known.
  constexpr int kRanksAtOnce = kWidth > 0 ? hc_ranks(kWidth) : 16;
  __shared__ __align__(16) float pre[n];
  __shared__ __align__(16) float comb_logits[n * n];
  __shared__ float chunk_squares[kMaxChannels / kHcChunk];
  const int width = kWidth > 0 ? kWidth : args.width;
  const int ranks = hc_ranks(width);
  const std::int64_t row = blockIdx.x;
  const int thread = static_cast<int>(threadIdx.x), lane = thread % kWarpLanes;
  order.launch_next();
  // The weights of a layer come from memory: on their way before the previous kernel has ended, where
  // registers hold them.
  constexpr bool kWeightsAhead = kWidth > 0 && kNorm;
  const bool has_mix = thread >= kHcStreamThreads && lane < kHcMixes;
  const float mix_scale = has_mix ? args.scale[min(lane / n, 2)] : 0.0F,
              mix_base = has_mix ? args.base[lane] : 0.0F;
  float weight[kPieces][8] = {};
  const auto load_weights = [&] {
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
      const int channel = 8 * (thread + i * kHcStreamThreads);
      if (thread >= kHcStreamThreads || channel >= width) continue;
      const float4* const from = reinterpret_cast<const float4*>(args.norm_weight + channel);
      *reinterpret_cast<float4*>(weight[i]) = from[0];
      *reinterpret_cast<float4*>(weight[i] + 4) = from[1];
    }
  };
  if constexpr (kWeightsAhead) load_weights();
  ptx::wait_for_previous_kernel();

  if (thread >= kHcStreamThreads) {  // a warp for the gates: lane i has mix i
    // Past the first-level cache: a kernel before the one that wrote them had other things at their
    // addresses, and may have run on this SM since this block began.
    const float* const row_sums = sums + row * ranks * kHcSums;
    float product = 0.0F, squares = 0.0F;
#pragma unroll kRanksAtOnce
    for (int rank = 0; rank < ranks; ++rank) {
      squares += __ldcg(row_sums + rank * kHcSums);
      if (lane < kHcMixes) product += __ldcg(row_sums + rank * kHcSums + kHcFirstProduct + lane);
    }
    const float inverse = inverse_rms(squares, n * width, args.norm_eps);
    if (lane < kHcMixes) {
      const float logit = product * inverse * mix_scale + mix_base;
      if (lane < n) {
        const float own = sigmoid(logit) + args.hc_eps;
        pre[lane] = args.incoming == nullptr ? own : __ldcg(args.incoming + row * n + lane);
        if (args.pre != nullptr) args.pre[row * n + lane] = own;
      } else if (lane < 2 * n) {
        args.post[row * n + lane - n] = 2.0F * sigmoid(logit);
      } else {
        comb_logits[lane - 2 * n] = logit;
      }
    }
    __syncwarp();                                              // an arrival counts a whole warp
    ptx::named_barrier_arrive(kGatesBarrier, kHcRowsThreads);  // gates are there; nothing to wait for
    if (lane == 0) {
      write_comb(comb_logits, args.sinkhorn_iterations, args.hc_eps, args.comb + row * (n * n));
    }
    return;
  }

  uint4 x[kPieces][n];
#pragma unroll
  for (int i = 0; i < kPieces; ++i) {
    const int channel = 8 * (thread + i * kHcStreamThreads);
    if (channel >= width) continue;
#pragma unroll
    for (int j = 0; j < n; ++j) {
      x[i][j] = *reinterpret_cast<const uint4*>(args.streams + (row * n + j) * width + channel);
    }
  }
  ptx::named_barrier_sync(kGatesBarrier, kHcRowsThreads);
  const float4 weights = *reinterpret_cast<const float4*>(pre);
  uint4 u[kPieces];
#pragma unroll
  for (int i = 0; i < kPieces; ++i) {
    if (8 * i * kHcStreamThreads >= width) break;
    const int channel = 8 * (thread + i * kHcStreamThreads);
    const float squares = warp_sum<4>(weigh_streams(weights, x[i], u[i]));
    if (lane % 4 == 0 && channel < width) chunk_squares[channel / kHcChunk] = squares;
  }
  if constexpr (!kNorm) {
#pragma unroll
    for (int i = 0; i < kPieces; ++i) {
      const int channel = 8 * (thread + i * kHcStreamThreads);
      if (channel < width) *reinterpret_cast<uint4*>(args.y + row * args.y_stride + channel) = u[i];
    }
    return;
  }
  if constexpr (!kWeightsAhead) load_weights();
  ptx::named_barrier_sync(kStreamBarrier, kHcStreamThreads);

  // Added up as ranks and their warps do.
  static_assert(kHcMaxRanks <= kWarpLanes);
  float squares = 0.0F;
  if (lane < ranks) {
    const HcSlice<kWidth> slice(args.width, lane);
    const float* const of_rank = chunk_squares + slice.first_channel() / kHcChunk;
    for (int warp = 0; warp < slice.num_warps(); ++warp) {
      float warp_squares = 0.0F;
      for (int i = 0; slice.has_chunk(warp, i); ++i) warp_squares += of_rank[warp + i * kHcStreamWarps];
      squares += warp_squares;
    }
  }
  const float inverse = inverse_rms(warp_sum(squares), width, args.rms_eps);
#pragma unroll
  for (int i = 0; i < kPieces; ++i) {
    if (8 * i * kHcStreamThreads >= width) break;
    const int channel = 8 * (thread + i * kHcStreamThreads);
    write_normed(args, width, row, channel, u[i], inverse, weight[i], channel < width);
  }
}

}  // namespace baleen::BALEEN_ARCH
