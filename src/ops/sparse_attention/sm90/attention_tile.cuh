/// What the kernels on tiles share: the tiles, rows dequantised into them, the arithmetic of a query's
/// softmax, and what is stored in the end.
#pragma once

#include <cmath>
#include <cstdint>

#include "cuda/bf16_vector.cuh"
#include "cuda/ptx/exp2.h"
#include "cuda/ptx/wgmma.h"
#include "cuda/ptx/wgmma_bf16.h"
#include "cuda/scale_group.cuh"
#include "cuda/warp_reduce.cuh"
#include "numeric/block_scale.h"
#include "ops/sparse_attention/cuda/attention_output.cuh"
#include "ops/sparse_attention/sm90/attention_tiles.h"

namespace baleen::sm90 {

inline constexpr int kGroupHeads = 64;  ///< rows of a matrix instruction
inline constexpr int kNope = kTilesNope, kRope = kTilesRope, kWidth = kTilesWidth;
inline constexpr int kDataBytes = kNope + 2 * kRope, kScaleBytes = 8;
inline constexpr int kTileDims = 64;  ///< 128 bytes of BF16: a tile's row
inline constexpr int kDimTiles = kWidth / kTileDims;
inline constexpr int kWarpgroupThreads = 128;
/// What a thread of a warpgroup holds of 64 heads x 64 dims: the layout of ptx/wgmma_bf16.h.
inline constexpr int kTileSums = kGroupHeads * kTileDims / kWarpgroupThreads;

inline constexpr int kDepth = 16;  ///< inputs of a matrix instruction
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

inline constexpr std::uint32_t kLargestScale = kE8m0Bias + 7;  ///< that one multiplication can take

/// 16-byte chunk `chunk` of row `entry`.
__device__ inline std::byte* chunk_of(std::byte* tile, int entry, int chunk) {
  return tile + entry * kTileDims * 2 + ((chunk ^ entry % 8) << 4);
}

/// Codes 16 piece .. of a row's 64 that share `scale`. `multiply_by_rest` must follow for scales above
/// kLargestScale.
__device__ inline void store_dequantised(const uint4& codes, std::uint32_t scale, std::byte* tile, int entry,
                                         int piece) {
  const std::uint32_t words[4] = {codes.x, codes.y, codes.z, codes.w};
  std::uint32_t values[8];
  const std::uint32_t multiplier = bf16_power_of_two(min(scale, kLargestScale) + kE4m3ToBf16);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    values[2 * i] = dequantise_e4m3_pair(words[i], multiplier);
    values[2 * i + 1] = dequantise_e4m3_pair(words[i] >> 16, multiplier);
  }
  *reinterpret_cast<uint4*>(chunk_of(tile, entry, 2 * piece)) = {values[0], values[1], values[2], values[3]};
  *reinterpret_cast<uint4*>(chunk_of(tile, entry, 2 * piece + 1)) = {values[4], values[5], values[6],
                                                                     values[7]};
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

/// Of a thread's two heads (rows `row` and `row` + 8 of a group of 64).
class SoftmaxState {
 public:
  /// Takes in a run: its weights and the sums so far are brought to the common maximum. `run`: the heads'
  /// maxima and sums. All lanes of the warp take part.
  template <int kCount>
  __device__ void merge(const float2 (&run)[2], RunWeights& weights, float (&sums)[kCount]) {
    float kept[2];
    take_in(run, weights, kept);
    scale(sums, kept);
  }

  /// The same in two steps. First what needs no sums: `kept` is what those so far are to be multiplied with.
  __device__ void take_in(const float2 (&run)[2], RunWeights& weights, float (&kept)[2]) {
    std::uint32_t added[2];
#pragma unroll
    for (int head = 0; head < 2; ++head) {
      const float larger = fmaxf(maximum[head], run[head].x);
      kept[head] = power(maximum[head], larger);
      const float factor = power(run[head].x, larger);
      added[head] = pack_bf16(factor, factor);
      denominator[head] = __fmaf_rn(run[head].y, factor, __fmul_rn(denominator[head], kept[head]));
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

// From sums to what is stored: the sink, the division, the rotation back.

/// Of a thread's two heads, `row` and `row` + 8 of `group`.
__device__ inline float2 sinks_of(const AttentionLaunch& launch, int group, int row) {
  const int head = group * kGroupHeads + row, last = launch.num_heads - 1;
  return {launch.sink[min(head, last)], launch.sink[min(head + 8, last)]};
}

/// Of a thread's two heads; `nothing` to see gives zeros.
__device__ inline void inverse_denominators(float2 sinks, const SoftmaxState& state, bool nothing,
                                            float (&inverse)[2]) {
  inverse[0] = nothing ? 0.0F : inverse_denominator(state.denominator[0], state.maximum[0], sinks.x);
  inverse[1] = nothing ? 0.0F : inverse_denominator(state.denominator[1], state.maximum[1], sinks.y);
}

/// Of the pairs of the rotary tile that a thread holds: 4 i + its number in the quad.
struct TileAngles {
  static constexpr int kPairs = kTileDims / 8;
  float cosine[kPairs], sine[kPairs];

  /// Past the first-level cache, where the step before had others.
  __device__ static TileAngles load(const AttentionLaunch& launch, int query, int thread) {
    TileAngles angles;
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      const std::int64_t angle = query * launch.angle_stride + 4 * i + thread % 4;
      angles.cosine[i] = __ldcg(launch.cosine + angle);
      angles.sine[i] = __ldcg(launch.sine + angle);
    }
    return angles;
  }
};

/// Word k of lane j of every four lanes goes to lane k, as word j.
__device__ inline void transpose_in_quad(std::uint32_t* words) {
  const auto exchange = [](std::uint32_t& first, std::uint32_t& second, int distance) {
    const bool upper = (threadIdx.x & static_cast<unsigned>(distance)) != 0;
    const std::uint32_t received = __shfl_xor_sync(0xFFFFFFFFu, upper ? first : second, distance);
    (upper ? first : second) = received;
  };
  exchange(words[0], words[1], 1);
  exchange(words[2], words[3], 1);
  exchange(words[0], words[2], 2);
  exchange(words[1], words[3], 2);
}

/// Writes 64 heads x 64 dims of a query, dim tile `tile`, that a warpgroup holds; `thread` of it. `inverse`:
/// of the thread's two heads; `angles`() is called for the rotary tile. Step by step for all values, so that
/// no step waits for the one before.
template <class Angles>
__device__ void store_tile(const AttentionLaunch& launch, int query, int group, int tile, int thread,
                           const float* sums, const float (&inverse)[2], const Angles& angles) {
  const int row = thread / kWarpLanes * 16 + thread % kWarpLanes / 4, quad_lane = thread % 4;
  constexpr int kQuadDims = 32;  // after the exchange each lane of four has 8 of them
  constexpr int kPairs = kTileDims / 8, kQuadPairs = kQuadDims / 8;
  std::uint32_t words[2][kPairs];
#pragma unroll
  for (int which = 0; which < 2; ++which) {
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      const float* pair = sums + i * 4 + 2 * which;
      words[which][i] = pack_bf16(pair[0] * inverse[which], pair[1] * inverse[which]);
    }
  }
  if (tile == kDimTiles - 1) {
    const TileAngles of_thread = angles();
#pragma unroll
    for (int i = 0; i < kPairs; ++i) {
      for (auto& head : words) head[i] = rotated_back(head[i], of_thread.cosine[i], of_thread.sine[i]);
    }
  }
#pragma unroll
  for (int quad = 0; quad < kPairs; quad += kQuadPairs) {
    for (auto& head : words) transpose_in_quad(head + quad);
  }
#pragma unroll
  for (int which = 0; which < 2; ++which) {
    const int head = group * kGroupHeads + row + 8 * which;
    Bf16Bits* to = launch.out + query * launch.out_row_stride + head * launch.out_head_stride +
                   tile * kTileDims + 8 * quad_lane;
#pragma unroll
    for (int quad = 0; quad < kPairs; quad += kQuadPairs) {
      const std::uint32_t* word = words[which] + quad;
      if (head < launch.num_heads) {
        *reinterpret_cast<uint4*>(to + 8 * quad) = {word[0], word[1], word[2], word[3]};
      }
    }
  }
}

/// The same, with angles read where they are needed.
__device__ inline void store_tile(const AttentionLaunch& launch, int query, int group, int tile, int thread,
                                  const float* sums, const float (&inverse)[2]) {
  store_tile(launch, query, group, tile, thread, sums, inverse,
             [&] { return TileAngles::load(launch, query, thread); });
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
