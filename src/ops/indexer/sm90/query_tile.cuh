/// Queries prepared for scoring: rotated, transformed, cut to FP4 and dequantised to e4m3 in shared memory,
/// as the B operand of the product with the keys.
///
/// A row (one head of one query) has four FP4 blocks with a power-of-two scale each. Relative to the row's
/// largest scale the values are e2m1 times 2^-k, and e4m3 holds 2^(6 - k) times them exactly up to k = 14;
/// what is smaller rounds, off by less than 1e-5 of the row's largest value. So a row is 128 bytes of e4m3
/// and one scale, and the scale goes into the head's weight. Keys are dequantised the same way
/// (key_tile.cuh).
///
/// The order of the 128 dims along K is free as long as both operands share it. Step s of four (32 dims each)
/// takes of every block c the dims 8 s .. 8 s + 7: bytes 4 c .. 4 c + 3 the first four, 16 + 4 c .. the
/// others. So a lane that loads a whole block of a key with one instruction has just what the matrix
/// instruction wants it to hold.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp8.h>

#include <cstdint>

#include "ops/indexer/sm90/candidates.cuh"

namespace baleen::sm90::index_kernels {

inline constexpr int kDim = 128;
inline constexpr int kBlocks = 4;  ///< FP4 blocks of a row
inline constexpr int kBlock = kDim / kBlocks;
inline constexpr int kSteps = 4;  ///< matrix instructions along K
/// Heads of a query, padded with heads of weight 0.
inline constexpr int kHeads = 64;
inline constexpr int kQueryBytes = kHeads * kDim;
/// 6, the largest of e2m1, becomes 6 * 2^6 = 384; 2^7 times it would be beyond e4m3.
inline constexpr int kHeadroomBits = 6;

/// A sum of 128 products of numbers up to 384 stays below 2^25. Sums are scaled by 2^-25 so that one
/// saturating multiply cuts them to [0, 1], which is relu.
inline constexpr int kSumBits = 25;

__device__ inline float power_of_two(int exponent) {
  return __int_as_float((exponent + 127) << 23);  // of a normal number
}

/// 2^(code - 127); NaN for 255.
__device__ inline float e8m0_value(std::uint32_t code) {
  constexpr std::uint32_t kNan = 0x7FC00000u, kSmallest = 0x00400000u;  // 2^-127 is subnormal
  return __uint_as_float(code == 0xFFu ? kNan : max(code << 23, kSmallest));
}

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
};

/// Smallest power of two >= amax / 6, as numeric/block_scale.h has it.
__device__ inline int fp4_scale_code(float amax) {
  const float x = __fmul_rn(fmaxf(fminf(amax, 0x1p127F), 6.0F * 0x1p-126F), 1.0F / 6.0F);
  const auto bits = __float_as_uint(x);
  return static_cast<int>(bits >> 23) + ((bits & 0x7FFFFFu) != 0 ? 1 : 0);
}

/// `value`, in units of its block's scale, to the nearest of e2m1, ties to the even code; NaN is 0.
__device__ inline float round_to_e2m1(float value) {
  const float magnitude = fminf(fmaxf(fabsf(value), 0.0F), 6.0F);
  // One binade has two values (below 1: halves), so adding 3 * 2^21 times the binade rounds to a multiple of
  // half of it.
  const int binade = max(__float_as_int(magnitude) & 0x7F800000, 0x3F800000);
  const float magic = __int_as_float(binade + (22 << 23) + 0x400000);
  return copysignf((magnitude + magic) - magic, value);
}

__device__ inline float round_to_bf16(float value) { return __bfloat162float(__float2bfloat16_rn(value)); }

/// Rotates the pairs of block `block` of a row that are among the last 2 num_pairs dims.
__device__ inline void rotate_block(float (&x)[kBlock], int block, const float* cosine, const float* sine,
                                    int num_pairs) {
  constexpr int kPairs = kBlock / 2;
  const int first = block * kPairs - (kDim / 2 - num_pairs);
  float c[kPairs], s[kPairs];  // loads first: they wait for memory together
#pragma unroll
  for (int i = 0; i < kPairs; ++i) {
    c[i] = first + i >= 0 ? __ldcg(cosine + first + i) : 0.0F;
    s[i] = first + i >= 0 ? __ldcg(sine + first + i) : 0.0F;
  }
#pragma unroll
  for (int i = 0; i < kPairs; ++i) {
    const float a = x[2 * i], b = x[2 * i + 1];
    const float even = round_to_bf16(__fsub_rn(__fmul_rn(a, c[i]), __fmul_rn(b, s[i])));
    const float odd = round_to_bf16(__fadd_rn(__fmul_rn(a, s[i]), __fmul_rn(b, c[i])));
    x[2 * i] = first + i >= 0 ? even : a;
    x[2 * i + 1] = first + i >= 0 ? odd : b;
  }
}

/// Hadamard transform of a row of which each lane of a quad holds a block; rounded to BF16.
__device__ inline void transform_row(float (&x)[kBlock], int block) {
#pragma unroll
  for (int stride = 1; stride < kBlock; stride *= 2) {
#pragma unroll
    for (int i = 0; i < kBlock; ++i) {
      if ((i & stride) != 0) continue;
      const float a = x[i], b = x[i + stride];
      x[i] = a + b;
      x[i + stride] = a - b;
    }
  }
#pragma unroll
  for (int stride = 1; stride < kBlocks; stride *= 2) {
    const bool upper = (block & stride) != 0;
#pragma unroll
    for (int i = 0; i < kBlock; ++i) {
      const float other = __shfl_xor_sync(kAllLanes, x[i], stride);
      x[i] = upper ? other - x[i] : x[i] + other;
    }
  }
  constexpr float kFactor = 0.08838834764831845F;  // 128^-1/2
#pragma unroll
  for (int i = 0; i < kBlock; ++i) x[i] = round_to_bf16(__fmul_rn(x[i], kFactor));
}

/// The four values as e4m3 bytes, the first lowest.
__device__ inline std::uint32_t pack_e4m3(float a, float b, float c, float d) {
  const auto low = __nv_cvt_float2_to_fp8x2({a, b}, __NV_SATFINITE, __NV_E4M3);
  const auto high = __nv_cvt_float2_to_fp8x2({c, d}, __NV_SATFINITE, __NV_E4M3);
  return static_cast<std::uint32_t>(low) | static_cast<std::uint32_t>(high) << 16;
}

/// Quantises a row and writes it, swizzled as the tensor core reads rows of 128 bytes; the code of its scale.
__device__ inline int write_row(const float (&x)[kBlock], int block, int row, std::byte* tile) {
  float amax = 0.0F;
#pragma unroll
  for (int i = 0; i < kBlock; ++i) amax = fmaxf(amax, fabsf(x[i]));
  const int code = fp4_scale_code(amax);
  int row_code = max(code, __shfl_xor_sync(kAllLanes, code, 1));
  row_code = max(row_code, __shfl_xor_sync(kAllLanes, row_code, 2));
  constexpr int kVanished = 31;  // so far below the largest scale everything rounds to 0
  const float inverse = power_of_two(127 - code);
  const float dequantised = power_of_two(kHeadroomBits - min(row_code - code, kVanished));
  std::byte* to = tile + row * kDim;
#pragma unroll
  for (int i = 0; i < kBlock; i += 4) {
    const auto value = [&](int at) { return round_to_e2m1(x[at] * inverse) * dequantised; };
    const int chunk = (i / 4) ^ (row % 8);  // step i / 8, its half i / 4 % 2
    *reinterpret_cast<std::uint32_t*>(to + chunk * 16 + block * 4) =
        pack_e4m3(value(i), value(i + 1), value(i + 2), value(i + 3));
  }
  return row_code;
}

/// By the whole block, without a barrier: query `row` of the step into `tile` (kQueryBytes, 1024-byte
/// aligned) and its weights, times the heads' scales, into `weights` [4][4][4]: lane c of a quad holds heads
/// 8 g + 2 c + e of a product, and finds the weight of the i-th of them, i = 2 g + e, at [i / 4][c][i % 4].
/// Reads past the first-level cache, where the layer before had other queries.
template <int kThreads>
__device__ void prepare_query(const QueryInputs& inputs, std::int64_t row, std::byte* tile, float* weights) {
  constexpr int kRowsAtOnce = kThreads / kBlocks;
  const int block = static_cast<int>(threadIdx.x) % kBlocks;
  const float* cosine = inputs.cosine + row * inputs.cosine_stride;
  const float* sine = inputs.sine + row * inputs.sine_stride;
  for (int head = static_cast<int>(threadIdx.x) / kBlocks; head < kHeads; head += kRowsAtOnce) {
    const bool exists = head < inputs.num_heads;
    float x[kBlock] = {};
    if (exists) {
      const auto* from = reinterpret_cast<const uint4*>(inputs.q + row * inputs.row_stride +
                                                        head * inputs.head_stride + block * kBlock);
#pragma unroll
      for (int i = 0; i < kBlock / 8; ++i) {
        const uint4 eight = __ldcg(from + i);
        const std::uint32_t pairs[4] = {eight.x, eight.y, eight.z, eight.w};
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          x[8 * i + 2 * j] = __uint_as_float(pairs[j] << 16);
          x[8 * i + 2 * j + 1] = __uint_as_float(pairs[j] & 0xFFFF0000u);
        }
      }
      rotate_block(x, block, cosine, sine, inputs.num_pairs);
    }
    transform_row(x, block);
    const int row_code = write_row(x, block, head, tile);
    if (block != 0) continue;
    float weight = 0.0F;
    if (exists) {
      weight = __bfloat162float(__ldcg(inputs.head_weights + row * inputs.weight_stride + head));
      weight = round_to_bf16(__fmul_rn(weight, inputs.weight_factor));
      weight =
          weight * e8m0_value(static_cast<std::uint32_t>(row_code)) * power_of_two(kSumBits - kHeadroomBits);
    }
    weights[head / 16 * 16 + head % 8 / 2 * 4 + head / 8 % 2 * 2 + head % 2] = weight;
  }
}

}  // namespace baleen::sm90::index_kernels
