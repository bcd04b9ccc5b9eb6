/// What the kernels on tiles share: the tiles, rows dequantised into them, the arithmetic of a query's
/// softmax.
#pragma once

#include <cmath>
#include <cstdint>

#include "cuda/ptx/wgmma.h"
#include "cuda/ptx/wgmma_bf16.h"
#include "ops/sparse_attention/cuda/attention_tile.cuh"
#include "ops/sparse_attention/sm90/attention_tiles.h"

namespace baleen::sm90 {

inline constexpr int kWarpgroupThreads = 128;
inline constexpr int kRunSteps = kRunEntries / kDepth;
inline constexpr int kTileBytes = kRunEntries * kTileDims * 2;
inline constexpr int kRowGroupBytes = 8 * kTileDims * 2;  ///< eight rows of a swizzled tile

/// From `shared` to the next place for a tile. (An offset, not a rounded pointer, so that the compiler still
/// knows where it points: accesses of unknown space are slow, and a fence between them and the tensor cores
/// waits for all reads under way.)
__device__ inline unsigned bytes_to_tile(const std::byte* shared) {
  return -ptx::shared_address(shared) % static_cast<unsigned>(kRowGroupBytes);
}

inline constexpr int kConsumers = 2;  ///< warpgroups; each owns 256 dims of the sums
inline constexpr int kStages = 2;
inline constexpr int kConsumerTiles = kDimTiles / kConsumers;
inline constexpr int kTileThreads = (kConsumers + 1) * kWarpgroupThreads;

/// The same value, which all lanes have, known to the compiler as such: loops and descriptors then take
/// uniform registers.
__device__ inline int uniform(int value) { return __shfl_sync(kAllLanes, value, 0); }

// Codes of cache rows to BF16 in shared memory, in tiles [64 entries][64 dims] swizzled as TMA does.

/// 16-byte chunk `chunk` of row `entry`.
__device__ inline std::byte* chunk_of(std::byte* tile, int entry, int chunk) {
  return tile + entry * kTileDims * 2 + ((chunk ^ entry % 8) << 4);
}

/// Codes 16 piece .. of a row's 64, times `multiplier` (cuda/scale_group.cuh).
__device__ inline void store_multiplied(const uint4& codes, std::uint32_t multiplier, std::byte* tile,
                                        int entry, int piece) {
  const std::uint32_t words[4] = {codes.x, codes.y, codes.z, codes.w};
  std::uint32_t values[8];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    values[2 * i] = dequantise_e4m3_pair(words[i], multiplier);
    values[2 * i + 1] = dequantise_e4m3_pair(words[i] >> 16, multiplier);
  }
  *reinterpret_cast<uint4*>(chunk_of(tile, entry, 2 * piece)) = {values[0], values[1], values[2], values[3]};
  *reinterpret_cast<uint4*>(chunk_of(tile, entry, 2 * piece + 1)) = {values[4], values[5], values[6],
                                                                     values[7]};
}

/// Of a scale's e8m0 code. `multiply_by_rest` must follow for scales above kLargestScale.
__device__ inline std::uint32_t code_multiplier(std::uint32_t scale) {
  return bf16_power_of_two(min(scale, kLargestScale) + kE4m3ToBf16);
}

/// Codes 16 piece .. of a row's 64, of which these 16 share `scale`, as `code_multiplier` says.
__device__ inline void store_dequantised(const uint4& codes, std::uint32_t scale, std::byte* tile, int entry,
                                         int piece) {
  store_multiplied(codes, code_multiplier(scale), tile, entry, piece);
}

/// Values beyond 2^7 times 448, which no model has: what `store_dequantised` stored of them, once more.
__device__ inline void multiply_by_rest(std::uint32_t scale, std::byte* tile, int entry, int piece) {
  if (scale <= kLargestScale) return;
  const std::uint32_t rest = bf16_power_of_two(scale - kLargestScale + kE8m0Bias, scale == kE8m0NaN);
  for (int chunk = 2 * piece; chunk < 2 * piece + 2; ++chunk) {
    auto* values = reinterpret_cast<uint4*>(chunk_of(tile, entry, chunk));
    *values = {ptx::multiply_bf16_pair(values->x, rest), ptx::multiply_bf16_pair(values->y, rest),
               ptx::multiply_bf16_pair(values->z, rest), ptx::multiply_bf16_pair(values->w, rest)};
  }
}

// The one order of arithmetic of a query's softmax, wherever its parts are computed.
//
// A run of 64 entries has, for each head, a maximum m_b, rounded up to an integer (all counts in powers of
// two), the weights p = bf(2^(s - m_b)) and the sum z_b of the unrounded ones. None depends on other runs.
// The running state takes one run after the other, in list order:
//
//     M' = max(M, m_b)    Z' = Z 2^(M - M') + z_b 2^(m_b - M')    O' = O 2^(M - M') + sum (p 2^(m_b - M')) v
//
// Both powers have integer exponents: scaling rounds nothing, and most runs leave M as it is. The last sum
// is one chain of matrix instructions per dim, 16 entries each, in order. So weights may be computed by
// other thread blocks than use them, and dims be shared among thread blocks, and the bits are the same.

/// A run's weights as a thread has them: operand registers of ptx/wgmma_bf16.h, for each 16 entries.
using RunWeights = std::uint32_t[kRunSteps][4];

/// Operand registers of 16 entries from where they were left.
__device__ inline void unpack_weights(const uint4& words, std::uint32_t (&step)[4]) {
  step[0] = words.x;
  step[1] = words.y;
  step[2] = words.z;
  step[3] = words.w;
}

/// Queues the products of 64 queries and the keys of a run, dims in order.
__device__ inline void begin_scores(const std::byte (&q)[kDimTiles][kTileBytes],
                                    const std::byte (&keys)[kDimTiles][kTileBytes],
                                    float (&scores)[kTileSums]) {
  const std::uint64_t q_tiles = ptx::wgmma_descriptor(q, ptx::SmemSwizzle::k128B, kRowGroupBytes);
  const std::uint64_t key_tiles = ptx::wgmma_descriptor(keys, ptx::SmemSwizzle::k128B, kRowGroupBytes);
  ptx::wgmma_fence();
#pragma unroll
  for (int step = 0; step < kWidth / kDepth; ++step) {
    constexpr int kTileSteps = kTileDims / kDepth;
    const int bytes = step / kTileSteps * kTileBytes + step % kTileSteps * kDepth * 2;
    ptx::wgmma_bf16<kRunEntries>(scores, q_tiles + bytes / 16, key_tiles + bytes / 16, step != 0);
  }
  ptx::wgmma_commit();
}

/// Queues sums += weights times values, of as many tiles of 64 dims as `sums` holds, from the one at `values`
/// on.
template <int kSums>
__device__ void begin_adding(const RunWeights& weights, const std::byte* values, float (&sums)[kSums]) {
  const std::uint64_t tiles =
      ptx::wgmma_transposed_descriptor(values, ptx::SmemSwizzle::k128B, kRowGroupBytes, kTileBytes);
  ptx::wgmma_fence();
#pragma unroll
  for (int step = 0; step < kRunSteps; ++step) {
    constexpr int kStepBytes = kDepth / 8 * kRowGroupBytes;
    ptx::wgmma_bf16<kSums / kTileSums * kTileDims, true>(sums, weights[step], tiles + step * kStepBytes / 16,
                                                         true);
  }
  ptx::wgmma_commit();
}

/// Until what was queued is done.
template <int kSums>
__device__ void finish_products(float (&sums)[kSums]) {
  ptx::wgmma_wait<0>();
#pragma unroll
  for (float& sum : sums) ptx::wgmma_hold(sum);
}

/// `scores` of 64 heads x 64 entries, of which the first `num_valid` exist, become weights before rounding.
/// The result is the maximum and the sum of the weights for each of a thread's two heads. Whole warps.
__device__ inline void weigh_scores(float (&scores)[kTileSums], int num_valid, float scale_log2,
                                    float2 (&softmax)[2]) {
  if (num_valid < kRunEntries) {
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

/// A consumer's half of the dims of 64 heads; `nothing`: the query sees no entries.
__device__ inline void store_half(const AttentionLaunch& launch, int query, int group, int consumer, int row,
                                  int thread, const float (&sums)[kConsumerTiles * kTileSums],
                                  const SoftmaxState& state, bool nothing) {
  float inverse[2];
  inverse_denominators(sinks_of(launch, group, row), state, nothing, inverse);
#pragma unroll
  for (int tile = 0; tile < kConsumerTiles; ++tile) {
    store_tile(launch, query, group, consumer * kConsumerTiles + tile, thread, sums + tile * kTileSums,
               inverse);
  }
}

}  // namespace baleen::sm90
