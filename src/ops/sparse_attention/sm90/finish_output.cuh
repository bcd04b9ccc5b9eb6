/// From sums to what is stored: the sink, the division, the rotation back.
#pragma once

#include <cstdint>

#include "cuda/bf16_vector.cuh"
#include "cuda/warp_reduce.cuh"
#include "ops/sparse_attention/sm90/block_merge.cuh"

namespace baleen::sm90 {

/// `maximum` and the exponents of `denominator` count in powers of two, `sink` in powers of e. An infinite
/// sink gives 0 or has no effect.
__device__ inline float inverse_denominator(float denominator, float maximum, float sink) {
  constexpr float kLog2E = 1.44269504F;
  return 1.0F / (denominator + exp2f(fmaf(sink, kLog2E, -maximum)));
}

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

/// A pair of BF16 values, turned by minus the angle in float32 and rounded again: what `rope` does with
/// `inverse`.
__device__ inline std::uint32_t turned_back(std::uint32_t pair, float cosine, float sine) {
  const float a = bf16_low(pair), b = bf16_high(pair);
  return pack_bf16(__fadd_rn(__fmul_rn(a, cosine), __fmul_rn(b, sine)),
                   __fsub_rn(__fmul_rn(b, cosine), __fmul_rn(a, sine)));
}

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
      for (auto& head : words) head[i] = turned_back(head[i], of_thread.cosine[i], of_thread.sine[i]);
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

}  // namespace baleen::sm90
