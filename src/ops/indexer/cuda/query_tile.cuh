/// Queries prepared for scoring: rotated, transformed where keys are, cut to FP4 and dequantised to e4m3 in
/// shared memory, as the B operand of the product with the keys.
///
/// A row (one head of one query) has four FP4 groups with a power-of-two scale each. Relative to the row's
/// largest scale the values are e2m1 times 2^-k, and e4m3 holds 2^(6 - k) times them exactly up to k = 14;
/// what is smaller rounds, off by less than 1e-5 of the row's largest value. So a row is 128 bytes of e4m3
/// and one scale, and the scale goes into the head's weight. Keys are dequantised the same way
/// (score_kernel.cuh).
///
/// The order of the 128 dims along K is free as long as both operands share it. Step s of four (32 dims each)
/// takes of every group c the dims 8 s .. 8 s + 7: bytes 4 c .. 4 c + 3 the first four, 16 + 4 c .. the
/// others. So a lane that loads a whole group of a key with one instruction has just what the matrix
/// instruction wants it to hold.
#pragma once

#include <cuda_bf16.h>

#include <cmath>
#include <cstdint>

#include "cuda/bf16_vector.cuh"
#include "cuda/rotation.cuh"
#include "cuda/scale_group.cuh"
#include "ops/indexer/cuda/candidates.cuh"
#include "ops/indexer/indexer.h"

namespace baleen::BALEEN_ARCH::index_kernels {

inline constexpr int kDim = 128;
inline constexpr int kScaleGroups = 4;  ///< a row has so many, each FP4 codes with a scale
inline constexpr int kGroupDims = kDim / kScaleGroups;
inline constexpr int kSteps = 4;  ///< matrix instructions along K
/// Heads of a query, padded with heads of weight 0.
inline constexpr int kHeads = 64;
inline constexpr int kQueryBytes = kHeads * kDim;
inline constexpr std::int64_t kMaxTopK = 2048;
/// 6, the largest of e2m1, becomes 6 * 2^6 = 384; 2^7 times it would be beyond e4m3.
inline constexpr int kHeadroomBits = 6;

/// A sum of 128 products of numbers up to 384 stays below 2^25. Sums are scaled by 2^-25 so that one
/// saturating multiply cuts them to [0, 1], which is relu.
inline constexpr int kSumBits = 25;

/// The rows of the step whose queries a block scores.
struct QueryInputs {
  const __nv_bfloat16* q;  ///< row r, head h at q + r * row_stride + h * head_stride
  std::int64_t row_stride, head_stride;
  const __nv_bfloat16* head_weights;
  std::int64_t weight_stride;
  const float* cosine;
  const float* sine;
  std::int64_t cosine_stride, sine_stride;
  int num_heads;
  int num_pairs;  ///< rotated: the last 2 num_pairs dims
  float weight_factor;
  bool hadamard;  ///< keys were transformed
};

/// Those of an operation's arguments.
[[nodiscard]] inline QueryInputs query_inputs(const IndexerArgs& args) {
  const std::int64_t num_heads = args.q.extent(1);
  return {.q = reinterpret_cast<const __nv_bfloat16*>(args.q.bf16().data()),
          .row_stride = args.q.stride(0),
          .head_stride = args.q.stride(1),
          .head_weights = reinterpret_cast<const __nv_bfloat16*>(args.head_weights.bf16().data()),
          .weight_stride = args.head_weights.stride(0),
          .cosine = args.cosine.f32().data(),
          .sine = args.sine.f32().data(),
          .cosine_stride = args.cosine.stride(0),
          .sine_stride = args.sine.stride(0),
          .num_heads = static_cast<int>(num_heads),
          .num_pairs = static_cast<int>(args.cosine.extent(1)),
          .weight_factor = static_cast<float>(1.0 / std::sqrt(double{kDim} * static_cast<double>(num_heads))),
          .hadamard = args.hadamard};
}

/// Rotates the pairs of group `scale_group` of a row that are among the last 2 num_pairs dims.
__device__ inline void rotate_group(float (&x)[kGroupDims], int scale_group, const float* cosine,
                                    const float* sine, int num_pairs) {
  constexpr int kPairs = kGroupDims / 2;
  const int first = scale_group * kPairs - (kDim / 2 - num_pairs);
  float c[kPairs], s[kPairs];  // loads first: they wait for memory together
#pragma unroll
  for (int i = 0; i < kPairs; ++i) {
    c[i] = first + i >= 0 ? __ldcg(cosine + first + i) : 0.0F;
    s[i] = first + i >= 0 ? __ldcg(sine + first + i) : 0.0F;
  }
#pragma unroll
  for (int i = 0; i < kPairs; ++i) {
    float even = x[2 * i], odd = x[2 * i + 1];
    rotate_pair(even, odd, c[i], s[i]);
    x[2 * i] = first + i >= 0 ? rounded_to_bf16(even) : x[2 * i];
    x[2 * i + 1] = first + i >= 0 ? rounded_to_bf16(odd) : x[2 * i + 1];
  }
}

/// Hadamard transform of a row of which each lane of a quad holds a group; rounded to BF16.
__device__ inline void transform_row(float (&x)[kGroupDims], int scale_group) {
#pragma unroll
  for (int stride = 1; stride < kGroupDims; stride *= 2) {
#pragma unroll
    for (int i = 0; i < kGroupDims; ++i) {
      if ((i & stride) != 0) continue;
      const float a = x[i], b = x[i + stride];
      x[i] = a + b;
      x[i + stride] = a - b;
    }
  }
#pragma unroll
  for (int stride = 1; stride < kScaleGroups; stride *= 2) {
    const bool upper = (scale_group & stride) != 0;
#pragma unroll
    for (int i = 0; i < kGroupDims; ++i) {
      const float other = __shfl_xor_sync(kAllLanes, x[i], stride);
      x[i] = upper ? other - x[i] : x[i] + other;
    }
  }
  constexpr float kFactor = 0.08838834764831845F;  // 128^-1/2
#pragma unroll
  for (int i = 0; i < kGroupDims; ++i) x[i] = rounded_to_bf16(__fmul_rn(x[i], kFactor));
}

/// Quantises a row and writes it, swizzled as the tensor core reads rows of 128 bytes; the code of its scale.
__device__ inline int write_row(const float (&x)[kGroupDims], int scale_group, int row, std::byte* tile) {
  float amax = 0.0F;
#pragma unroll
  for (int i = 0; i < kGroupDims; ++i) amax = fmaxf(amax, fabsf(x[i]));
  const float scale = fp4_scale(amax);
  const int code = e8m0_code(scale);
  int row_code = max(code, __shfl_xor_sync(kAllLanes, code, 1));
  row_code = max(row_code, __shfl_xor_sync(kAllLanes, row_code, 2));
  constexpr int kVanished = 31;  // so far below the largest scale everything rounds to 0
  const float inverse = inverse_scale(scale);
  const float dequantised = power_of_two(kHeadroomBits - min(row_code - code, kVanished));
  std::byte* to = tile + row * kDim;
#pragma unroll
  for (int i = 0; i < kGroupDims; i += 4) {
    const auto value = [&](int at) { return rounded_to_e2m1(x[at] * inverse) * dequantised; };
    const int chunk = (i / 4) ^ (row % 8);  // step i / 8, its half i / 4 % 2
    *reinterpret_cast<std::uint32_t*>(to + chunk * 16 + scale_group * 4) =
        to_e4m3x4(value(i), value(i + 1), value(i + 2), value(i + 3));
  }
  return row_code;
}

/// By the whole block, without a barrier: query `row` of the step into `tile` (kQueryBytes, 1024-byte
/// aligned) and its weights, times the heads' scales, into `weights` [4][4][4]: lane c of a quad holds heads
/// 8 g + 2 c + e of a product, and finds the weight of the i-th of them, i = 2 g + e, at [i / 4][c][i % 4].
/// Reads past the first-level cache, where the layer before had other queries.
template <int kThreads>
__device__ void prepare_query(const QueryInputs& inputs, std::int64_t row, std::byte* tile, float* weights) {
  constexpr int kRowsAtOnce = kThreads / kScaleGroups;
  const int scale_group = static_cast<int>(threadIdx.x) % kScaleGroups;
  const float* cosine = inputs.cosine + row * inputs.cosine_stride;
  const float* sine = inputs.sine + row * inputs.sine_stride;
  for (int head = static_cast<int>(threadIdx.x) / kScaleGroups; head < kHeads; head += kRowsAtOnce) {
    const bool exists = head < inputs.num_heads;
    float x[kGroupDims] = {};
    if (exists) {
      const auto* from = reinterpret_cast<const uint4*>(inputs.q + row * inputs.row_stride +
                                                        head * inputs.head_stride + scale_group * kGroupDims);
#pragma unroll
      for (int i = 0; i < kGroupDims / 8; ++i) {
        unpack_bf16(__ldcg(from + i), reinterpret_cast<float(&)[8]>(x[8 * i]));
      }
      rotate_group(x, scale_group, cosine, sine, inputs.num_pairs);
    }
    if (inputs.hadamard) transform_row(x, scale_group);
    const int row_code = write_row(x, scale_group, head, tile);
    if (scale_group != 0) continue;
    float weight = 0.0F;
    if (exists) {
      weight = __bfloat162float(__ldcg(inputs.head_weights + row * inputs.weight_stride + head));
      weight = rounded_to_bf16(__fmul_rn(weight, inputs.weight_factor));
      weight =
          weight * e8m0_value(static_cast<std::uint32_t>(row_code)) * power_of_two(kSumBits - kHeadroomBits);
    }
    weights[head / 16 * 16 + head % 8 / 2 * 4 + head / 8 % 2 * 2 + head % 2] = weight;
  }
}

}  // namespace baleen::BALEEN_ARCH::index_kernels
