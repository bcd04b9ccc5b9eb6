/// What kernels on tensor cores share, whichever matrix instructions they have: codes to BF16, the state of a
/// query's softmax from run to run, and what is stored in the end. A lane holds of a matrix what
/// mma.sync and wgmma leave it: of 16 heads x 8 values rows g and g + 8, columns 2q and 2q + 1.
#pragma once

#include <cmath>
#include <cstdint>

#include "cuda/bf16_vector.cuh"
#include "cuda/ptx/exp2.h"
#include "cuda/scale_group.cuh"
#include "cuda/warp_reduce.cuh"
#include "numeric/block_scale.h"
#include "ops/sparse_attention/cuda/attention_launch.h"
#include "ops/sparse_attention/cuda/attention_output.cuh"

namespace baleen::BALEEN_ARCH {

inline constexpr int kGroupHeads = 64;  ///< rows of a matrix instruction
inline constexpr int kNope = kTilesNope, kRope = kTilesRope, kWidth = kTilesWidth;
inline constexpr int kDataBytes = kNope + 2 * kRope, kScaleBytes = 8;
inline constexpr int kTileDims = 64;  ///< 128 bytes of BF16: a tile's row
inline constexpr int kDimTiles = kWidth / kTileDims;
/// What a lane of a warp holds of 16 heads x 64 dims.
inline constexpr int kTileSums = 16 * kTileDims / kWarpLanes;
inline constexpr int kDepth = 16;  ///< inputs of a matrix instruction

inline constexpr std::uint32_t kLargestScale = kE8m0Bias + 7;  ///< that one multiplication can take

/// Eight codes that share `scale`, as BF16.
__device__ inline uint4 dequantised(uint2 codes, std::uint32_t scale) {
  const std::uint32_t multiplier = bf16_power_of_two(min(scale, kLargestScale) + kE4m3ToBf16);
  uint4 values = {dequantise_e4m3_pair(codes.x, multiplier), dequantise_e4m3_pair(codes.x >> 16, multiplier),
                  dequantise_e4m3_pair(codes.y, multiplier), dequantise_e4m3_pair(codes.y >> 16, multiplier)};
  if (scale > kLargestScale) {
    const std::uint32_t rest = bf16_power_of_two(scale - kLargestScale + kE8m0Bias, scale == kE8m0NaN);
    values = {ptx::multiply_bf16_pair(values.x, rest), ptx::multiply_bf16_pair(values.y, rest),
              ptx::multiply_bf16_pair(values.z, rest), ptx::multiply_bf16_pair(values.w, rest)};
  }
  return values;
}

/// The running state of a head's softmax: from run to run of its list, in order, with m the run's maximum
/// and z the sum of its weights (all counts in powers of two, and whole ones),
///
///     M' = max(M, m)    Z' = Z 2^(M - M') + z 2^(m - M')
///
/// so bringing to the common maximum rounds nothing.
struct RunningSoftmax {
  /// From one maximum to a larger one.
  __device__ static float power(float maximum, float larger) {
    return maximum == larger ? 1.0F : ptx::exp2_approximate(maximum - larger);
  }

  /// With a run's m: what the sums so far are to be multiplied with, and what the run's weights and z.
  __device__ static void meet(float run, float& maximum, float& kept, float& added) {
    const float larger = fmaxf(maximum, run);
    kept = power(maximum, larger);
    added = power(run, larger);
    maximum = larger;
  }

  /// Z', with a run's z.
  __device__ static float add(float run, float denominator, float kept, float added) {
    return __fmaf_rn(run, added, __fmul_rn(denominator, kept));
  }
};

/// Of a thread's two heads (rows `row` and `row` + 8 of a group of 64).
class SoftmaxState {
 public:
  /// Takes in a run: its weights and the sums so far are brought to the common maximum. `run`: the heads'
  /// maxima and sums. All lanes of the warp take part.
  template <int kSteps, int kCount>
  __device__ void merge(const float2 (&run)[2], std::uint32_t (&weights)[kSteps][4], float (&sums)[kCount]) {
    float kept[2];
    take_in(run, weights, kept);
    scale(sums, kept);
  }

  /// The same in two steps. First what needs no sums: `kept` is what those so far are to be multiplied with.
  template <int kSteps>
  __device__ void take_in(const float2 (&run)[2], std::uint32_t (&weights)[kSteps][4], float (&kept)[2]) {
    std::uint32_t added[2];
#pragma unroll
    for (int head = 0; head < 2; ++head) {
      float factor;
      RunningSoftmax::meet(run[head].x, maximum[head], kept[head], factor);
      added[head] = pack_bf16(factor, factor);
      denominator[head] = RunningSoftmax::add(run[head].y, denominator[head], kept[head], factor);
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

}  // namespace baleen::BALEEN_ARCH
