/// Groups of values that share a scale, on the device: e4m3 and e2m1 codes, power-of-two scales and their
/// e8m0 codes; the functions of numeric/block_scale.h and numeric/e2m1.h, to the bit. From values to codes
/// first, then
/// back.   (source: forward pass 2.1, 2.2, 2.3)
#pragma once

#include <cuda_fp8.h>

#include <cstdint>

#include "cuda/bf16_vector.cuh"
#include "cuda/ptx/bf16_pair.h"
#include "cuda/ptx/byte_permute.h"
#include "cuda/warp_reduce.cuh"
#include "numeric/block_scale.h"
#include "tensor/fp8_rows.h"

namespace baleen {

inline constexpr std::uint32_t kE8m0Bias = 127, kE8m0NaN = 255;

/// 2^exponent, a normal number.
__device__ inline float power_of_two(int exponent) {
  return __int_as_float((exponent + static_cast<int>(kE8m0Bias)) << 23);
}
/// 2^(code - 127); NaN for 255.
__device__ inline float e8m0_value(std::uint32_t code) {
  constexpr std::uint32_t kNaN = 0x7FC00000u, kSmallest = 0x00400000u;  // 2^-127 is subnormal
  return __uint_as_float(code == kE8m0NaN ? kNaN : max(code << 23, kSmallest));
}
/// Of a power of two: its exponent field.
__device__ inline std::uint8_t e8m0_code(float scale) {
  return static_cast<std::uint8_t>(__float_as_uint(scale) >> 23);
}

/// 2^ceil(log2(ratio)). `ratio` is a normal number.
__device__ inline float power_of_two_above(float ratio) {
  constexpr std::uint32_t kMantissa = 0x7FFFFFu;
  return __uint_as_float((__float_as_uint(ratio) + kMantissa) & ~kMantissa);
}
/// 2^ceil(log2(max(amax, 1e-4) / 448)).
__device__ inline float fp8_scale(float amax) {
  return power_of_two_above(fminf(fmaxf(amax, 1e-4F), 0x1p127F) * (1.0F / 448.0F));
}
/// 2^ceil(log2(max(amax, 6 * 2^-126) / 6)).
__device__ inline float fp4_scale(float amax) {
  return power_of_two_above(fminf(fmaxf(amax, 6.0F * 0x1p-126F), 0x1p127F) * (1.0F / 6.0F));
}
/// 1 / scale, exact. `scale` is a power of two in [2^-126, 2^126].
__device__ inline float inverse_scale(float scale) {
  constexpr std::uint32_t kTwiceOne = 2u * 0x3F800000u;
  return __uint_as_float(kTwiceOne - __float_as_uint(scale));
}

/// The value of the nearest e4m3 code, ties to even, saturating; `value` is not NaN.
__device__ inline float rounded_to_e4m3(float value) {
  constexpr float kLargest = 448.0F;
  constexpr std::uint32_t kExponent = 0x7F800000u, kSmallest = 121u << 23;  // 2^-6
  // 1.5 * 2^20 times the value's binade, of which the last bit is 2^-3: a sum with it is rounded to three
  // bits behind the first one, and below 2^-6 to multiples of 2^-9.
  constexpr std::uint32_t kToMagic = (20u << 23) + 0x400000u;
  const float bounded = fminf(fmaxf(value, -kLargest), kLargest);
  const float magic = __uint_as_float(max(__float_as_uint(bounded) & kExponent, kSmallest) + kToMagic);
  return __fsub_rn(__fadd_rn(bounded, magic), magic);
}
/// That code; of NaN, NaN.
__device__ inline std::uint32_t to_e4m3(float value) {
  constexpr float kToFields = 0x1p-120F;  // exponents count from -7 and from -127
  constexpr std::uint32_t kNaN = 0x7Fu;
  const std::uint32_t magnitude = __float_as_uint(__fmul_rn(rounded_to_e4m3(value), kToFields)) >> 20 & kNaN;
  return isnan(value) ? kNaN : magnitude | (__float_as_uint(value) >> 24 & 0x80u);
}

/// Four e4m3 codes in the order of the values: nearest, ties to even, saturating.
__device__ inline std::uint32_t to_e4m3x4(float a, float b, float c, float d) {
#if __CUDA_ARCH__ >= 890
  const std::uint32_t low = __nv_cvt_float2_to_fp8x2({a, b}, __NV_SATFINITE, __NV_E4M3);
  const std::uint32_t high = __nv_cvt_float2_to_fp8x2({c, d}, __NV_SATFINITE, __NV_E4M3);
  return low | high << 16;
#else
  // There is no instruction for it; what stands in for that takes 35 a value, this 13.
  return (to_e4m3(a) | to_e4m3(b) << 8) | (to_e4m3(c) << 16 | to_e4m3(d) << 24);
#endif
}

/// The nearest e2m1 code, ties to the even one, saturating at +-6; NaN gives 0.
__device__ inline std::uint32_t to_e2m1(float value) {
  // Midpoints between neighbours: those above an odd code round up on equality.
  const float magnitude = fabsf(value);
  const std::uint32_t code = (magnitude > 0.25F) + (magnitude >= 0.75F) + (magnitude > 1.25F) +
                             (magnitude >= 1.75F) + (magnitude > 2.5F) + (magnitude >= 3.5F) +
                             (magnitude > 5.0F);
  constexpr int kSignShift = 28;  // from a float's sign to a code's
  const std::uint32_t sign = __float_as_uint(value) >> kSignShift & 8u;
  return isnan(value) ? 0u : code | sign;
}
/// Four codes, the first in the lowest nibble.
__device__ inline std::uint32_t to_e2m1x4(float a, float b, float c, float d) {
  return to_e2m1(a) | to_e2m1(b) << 4 | to_e2m1(c) << 8 | to_e2m1(d) << 12;
}
/// The value of that code.
__device__ inline float rounded_to_e2m1(float value) {
  const float magnitude = fminf(fmaxf(fabsf(value), 0.0F), 6.0F);
  // One binade has two values (below 1: halves), so adding 3 * 2^21 times the binade rounds to a multiple of
  // half of it.
  const int binade = max(__float_as_int(magnitude) & 0x7F800000, 0x3F800000);
  const float magic = __int_as_float(binade + (22 << 23) + 0x400000);
  return copysignf((magnitude + magic) - magic, value);
}

/// What a lane has of a group of FP8 activations: the codes of its values, four to a word, and the group's
/// scale.
template <int kValues>
struct Fp8Piece {
  std::uint32_t codes[kValues / 4];
  float scale;
};

/// `values`: kValues of a group of kGroup, which lies in neighbouring lanes, the first of which is a multiple
/// of their number. All lanes of the warp take part. Codes of NaN are NaN, and NaN does not count for the
/// scale; infinities saturate.
template <int kValues, int kGroup = kActivationGroup>
__device__ Fp8Piece<kValues> quantise_fp8_group(const float (&values)[kValues]) {
  static_assert(kValues == 4 || kValues == 8 || kValues == 16);
  float amax = 0.0F;
#pragma unroll
  for (int i = 0; i < kValues; ++i) amax = fmaxf(amax, fabsf(values[i]));
  Fp8Piece<kValues> piece;
  piece.scale = fp8_scale(warp_max<kGroup / kValues>(amax));
  const float inverse = inverse_scale(piece.scale);
#pragma unroll
  for (int i = 0; i < kValues; i += 4) {
    piece.codes[i / 4] = to_e4m3x4(values[i] * inverse, values[i + 1] * inverse, values[i + 2] * inverse,
                                   values[i + 3] * inverse);
  }
  return piece;
}

/// Writes a lane's piece, whose first value is element `column` of row `row` of `width`, a multiple of 128.
template <int kValues>
__device__ void store_fp8_piece(const Fp8Rows& rows, std::int64_t row, std::int64_t width,
                                std::int64_t column, const Fp8Piece<kValues>& piece) {
  std::uint8_t* codes = rows.codes + row * width + column;
  if constexpr (kValues == 4) {
    *reinterpret_cast<std::uint32_t*>(codes) = piece.codes[0];
  } else if constexpr (kValues == 8) {
    *reinterpret_cast<uint2*>(codes) = {piece.codes[0], piece.codes[1]};
  } else {
    *reinterpret_cast<uint4*>(codes) = {piece.codes[0], piece.codes[1], piece.codes[2], piece.codes[3]};
  }
  if (column % kActivationGroup == 0) {
    rows.scales[column / kActivationGroup * rows.scale_stride + row] = piece.scale;
  }
}

// e4m3 to BF16, two values at a time, scaled on the way: four instructions a pair.

/// From exponents of e4m3, which count from -7, to those of BF16, from -127.
inline constexpr std::uint32_t kE4m3ToBf16 = 120;

/// What `dequantise_e4m3_pair` multiplies with, twice in a word. Exact for powers of two below 2^8.
__device__ inline std::uint32_t e4m3_multiplier(float scale) {
  return bf16_bits(scale * 0x1p120F) * 0x10001u;
}

/// The same of a scale's e8m0 code. Exact for scales of 2^-117 to 2^7; larger ones count as that.
__device__ inline std::uint32_t e4m3_multiplier_of_code(std::uint32_t code) {
  constexpr std::uint32_t kLargest = kE8m0Bias + 7, kBf16ExponentShift = 7, kNaN = 0x7FC0;
  return (code == kE8m0NaN ? kNaN : (min(code, kLargest) + kE4m3ToBf16) << kBf16ExponentShift) * 0x10001u;
}

/// The two codes in the lower half of `codes`, first one in the lower half of the result. A power-of-two
/// scale gives the exact values; another one rounds them to BF16. (NaN codes count as 480.)
__device__ inline std::uint32_t dequantise_e4m3_pair(std::uint32_t codes, std::uint32_t multiplier) {
  // s.eeee.mmm, extended by its sign to 16 bits and moved up by 4, has sign and mantissa where BF16 wants
  // them; four bits between sign and exponent go. The tiny number that this is in BF16 (subnormal where the
  // code is) is then multiplied.
  constexpr std::uint32_t kSignExponentMantissa = 0x87F087F0;
  const std::uint32_t extended = ptx::byte_permute<0x9180>(codes);
  return ptx::multiply_bf16_pair(extended << 4 & kSignExponentMantissa, multiplier);
}

/// 2^(code - 127) in BF16, twice in a word.
__device__ inline std::uint32_t bf16_power_of_two(std::uint32_t code, bool nan = false) {
  constexpr int kBf16ExponentShift = 7;
  constexpr std::uint32_t kNaN = 0x7FC0;
  return (nan ? kNaN : code << kBf16ExponentShift) * 0x10001u;
}

/// Eight codes of e2m1 (lowest nibble first) to eight of e4m3. `low`, `high`: the e4m3 codes of the
/// magnitudes 0, 0.5, 1, 1.5 and 2, 3, 4, 6, scaled by a power of two.
__device__ inline void dequantise_e2m1(std::uint32_t codes, std::uint32_t low, std::uint32_t high,
                                       std::uint32_t& first, std::uint32_t& second) {
  constexpr std::uint32_t kSigns = 0x80808080u;
  const std::uint32_t magnitudes = codes & 0x77777777u;
  // Signs of codes 1, 3, 5, 7 are at the top of a byte; of 0, 2, 4, 6 they are after a shift.
  const std::uint32_t even = codes << 4;
  first = ptx::byte_permute(low, high, magnitudes) | (ptx::byte_permute<0x5140>(even, codes) & kSigns);
  second = ptx::byte_permute(low, high, magnitudes >> 16) | (ptx::byte_permute<0x7362>(even, codes) & kSigns);
}

}  // namespace baleen
