/// The arithmetic of ops/experts/stated_sums.h on integer tensor cores.
///
/// An instruction sums 32 inputs: one scale group. An activation X (19 bits) is three signed digits, each a
/// column of its own; digits are joined in integers of 32 bits, in which G and 2 G fit.
///
/// Many tokens: each instruction of a sum begins with what the one before has; G is rounded once, when it is
/// converted.
/// Few tokens, whose digits are columns of one instruction: weights are twice W, as that is what two lookups
/// give. The sums D of the digits begin at kSumBegin, the bits of a float32 whose last bit is 1/2: so an
/// integer that is added to them adds half of itself to the float, and 2 W becomes W again. Sums of 2 W with
/// a digit are less than 2^17, two digits joined less than 2^20, so that both are exact; G is rounded once,
/// in the fma.
#pragma once

#include <cstdint>

#include "cuda/bf16_vector.cuh"
#include "cuda/ptx/byte_permute.h"
#include "cuda/ptx/mma_s8.h"
#include "cuda/scale_group.cuh"
#include "ops/experts/cuda/expert_activation.cuh"
#include "ops/experts/stated_sums.h"

namespace baleen::BALEEN_ARCH::stated {

inline constexpr int kSliceWidth = 128, kSliceGroups = 4;
inline constexpr int kDigits = 3;
inline constexpr std::int32_t kDigitBase = 256;
inline constexpr int kSliceBytes = kSliceWidth / 2;        ///< a weight row's
inline constexpr int kDigitBytes = kSliceWidth * kDigits;  ///< a token's

inline constexpr std::int32_t kSumBegin = 0x4AC00000;  ///< 1.5 * 2^22
inline constexpr float kSumBeginValue = 0x1.8p22F;

/// First halves of the tables of `twice_weights`.
struct TwiceTables {
  std::uint32_t positive = 0x06040200u;  // 0, 2, 4, 6
  std::uint32_t negative = 0x7D7E7F00u;
};

/// Twice W of eight e2m1 codes, the first in the lowest nibble, as s8: of codes 0 to 3 and 4 to 7.
__device__ inline void twice_weights(std::uint32_t codes, std::uint32_t& first, std::uint32_t& second,
                                     const TwiceTables& tables = {}) {
  // A nibble's lower bits select a byte. Its top bit, the sign, selects eight copies of that byte's top bit
  // instead, which is 0 in these tables: positive codes alone, and, with the signs turned around, negative
  // ones alone, as -W in seven bits, of which the shift makes 2 W.
  constexpr std::uint32_t kTwiceHigh = 0x18100C08u, kNegativeHigh = 0x74787A7Cu;  // 8, 12, 16, 24
  constexpr std::uint32_t kSigns = 0x88888888u;
  const std::uint32_t turned = codes ^ kSigns;
  first = ptx::byte_permute(tables.positive, kTwiceHigh, codes) +
          (ptx::byte_permute(tables.negative, kNegativeHigh, turned) << 1);
  second = ptx::byte_permute(tables.positive, kTwiceHigh, codes >> 16) +
           (ptx::byte_permute(tables.negative, kNegativeHigh, turned >> 16) << 1);
}

/// W itself of eight codes, as s8, and 8 W.
__device__ inline void weights_and_eightfold(std::uint32_t codes, std::uint32_t (&weights)[2],
                                             std::uint32_t (&eightfold)[2]) {
  // Lookups as above of positive codes alone and of negative ones alone; 128 added to each byte keeps their
  // difference from borrowing.
  constexpr std::uint32_t kLow = 0x03020100u, kHigh = 0x0C080604u;  // 0, 1, 2, 3; 4, 6, 8, 12
  constexpr std::uint32_t kSigns = 0x88888888u, kMiddles = 0x80808080u, kEightfold = 0xF8F8F8F8u;
  const std::uint32_t turned = codes ^ kSigns;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const std::uint32_t middle = ptx::byte_permute(kLow, kHigh, codes >> (16 * i)) + kMiddles -
                                 ptx::byte_permute(kLow, kHigh, turned >> (16 * i));
    weights[i] = middle ^ kMiddles;
    eightfold[i] = middle << 3 & kEightfold;
  }
}

/// Whether one of four e4m3 codes is NaN.
__device__ inline bool has_nan(std::uint32_t codes) {
  constexpr std::uint32_t kMagnitudes = 0x7F7F7F7Fu, kOnes = 0x01010101u, kTops = 0x80808080u;
  return (((codes & kMagnitudes) + kOnes) & kTops) != 0;
}

/// X of an e4m3 code, the lowest byte of `code`.
__device__ inline std::int32_t integer_of(std::uint32_t code) {
  const std::uint32_t exponent = code >> 3 & 15u;
  const std::uint32_t mantissa = (code & 7u) | (exponent > 0 ? 8u : 0u);
  const auto magnitude = static_cast<std::int32_t>(mantissa << (exponent > 0 ? exponent - 1 : 0));
  return (code & 0x80u) != 0 ? -magnitude : magnitude;
}

/// The digits to base 256 of four X: word d has digit d of each, the lowest first.
__device__ inline void digits_of(const std::int32_t (&x)[4], std::uint32_t (&digits)[kDigits]) {
  // With 128 added to each digit they are the bytes of a sum; taken away again by turning its top bit.
  constexpr std::uint32_t kMiddles = 0x00808080u;
  std::uint32_t bytes[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) bytes[i] = (static_cast<std::uint32_t>(x[i]) + kMiddles) ^ kMiddles;
  const std::uint32_t lower = ptx::byte_permute<0x5140>(bytes[0], bytes[1]);  // digits 0, 0, 1, 1
  const std::uint32_t upper = ptx::byte_permute<0x5140>(bytes[2], bytes[3]);
  digits[0] = ptx::byte_permute<0x5410>(lower, upper);
  digits[1] = ptx::byte_permute<0x7632>(lower, upper);
  digits[2] = ptx::byte_permute<0x5410>(ptx::byte_permute<0x0062>(bytes[0], bytes[1]),
                                        ptx::byte_permute<0x0062>(bytes[2], bytes[3]));
}
/// The same of four e4m3 codes.
__device__ inline void to_digits(std::uint32_t codes, std::uint32_t (&digits)[kDigits]) {
  std::int32_t x[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) x[i] = integer_of(codes >> (8 * i));
  digits_of(x, digits);
}

/// Others, which are X = digit 0 + 256 (digit 1 + 8 digit 2): so digits 1 and 2 are joined where W and 8 W
/// are the weights. The upper two are 11 bits with their sign, |X| being at most 7 * 2^15.
__device__ inline void to_joint_digits(std::uint32_t codes, std::uint32_t (&digits)[kDigits]) {
  digits[0] = digits[1] = digits[2] = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const std::int32_t x = integer_of(codes >> (8 * i));
    const std::int32_t upper = (x + kDigitBase / 2) >> 8, eights = (upper + 4) >> 3;
    const std::int32_t of_code[kDigits] = {x - upper * kDigitBase, upper - 8 * eights, eights};
#pragma unroll
    for (int digit = 0; digit < kDigits; ++digit)
      digits[digit] |= (static_cast<std::uint32_t>(of_code[digit]) & 0xFFu) << (8 * i);
  }
}

/// Where the four inputs of word `stored` of a slice lie among its 32 words, once `product_word` has put them
/// there: the other way round.
__device__ constexpr int input_word(int stored) { return stored >> 2 | (stored & 3) << 3; }

/// s of a row's four groups, whose e8m0 codes are the bytes of `codes`. Where one of them is NaN the first
/// value is, which makes the slice NaN.
__device__ inline void group_scales(std::uint32_t codes, float (&scales)[kSliceGroups]) {
  constexpr std::uint32_t kExponent = 0x7F800000u, kSmallest = 0x00400000u;  // 2^-127 is subnormal
  scales[0] = __uint_as_float(max(codes << 23 & kExponent, kSmallest));
  scales[1] = __uint_as_float(max(codes << 15 & kExponent, kSmallest));
  scales[2] = __uint_as_float(max(codes << 7 & kExponent, kSmallest));
  scales[3] = __uint_as_float(max(codes >> 1 & kExponent, kSmallest));
  constexpr std::uint32_t kLower = 0x7F7F7F7Fu, kOnes = 0x01010101u, kTops = 0x80808080u;
  if ((((codes & kLower) + kOnes) & codes & kTops) != 0) scales[0] = __uint_as_float(0x7FC00000u);
}

/// float(G) of a group: its sums of digits 0 and 1 began at kSumBegin, that of digit 2 at 0. What the lower
/// sum began at is taken away beforehand, as a 256th of it from the upper one: both differences are exact.
__device__ inline float group_sum(std::int32_t sum0, std::int32_t sum1, std::int32_t sum2) {
  constexpr float kBase = 256.0F;
  const float upper = __fsub_rn(__int_as_float(sum2 * 256 + sum1), kSumBeginValue + kSumBeginValue / kBase);
  return __fmaf_rn(upper, kBase, __int_as_float(sum0));
}

/// A slice of an output, of its groups' float(G) and s.
__device__ inline float slice_sum(const float (&sums)[kSliceGroups], const float (&scales)[kSliceGroups]) {
  return __fadd_rn(__fadd_rn(__fmul_rn(sums[0], scales[0]), __fmul_rn(sums[2], scales[2])),
                   __fadd_rn(__fmul_rn(sums[1], scales[1]), __fmul_rn(sums[3], scales[3])));
}
/// The same where no product with a scale overflows: then it is exact, G being an integer and s at least
/// 2^-127, and two of them need no instruction of their own.
__device__ inline float slice_sum_of_moderate(const float (&sums)[kSliceGroups],
                                              const float (&scales)[kSliceGroups]) {
  return __fadd_rn(__fmaf_rn(sums[2], scales[2], __fmul_rn(sums[0], scales[0])),
                   __fmaf_rn(sums[3], scales[3], __fmul_rn(sums[1], scales[1])));
}
/// Whether the four e8m0 codes are of scales from 2^-126 to 2^96: normal numbers, whose products do not
/// overflow, as |2 G| is less than 2^28.
__device__ inline bool are_moderate(std::uint32_t codes) {
  constexpr std::uint32_t kTops = 0x80808080u, kOnes = 0x01010101u;
  const std::uint32_t large = codes & codes << 1 & codes << 2, small = (codes - kOnes) & ~codes;
  return ((large | small) & kTops) == 0;
}
/// `group_scales` of those.
__device__ inline void moderate_scales(std::uint32_t codes, float (&scales)[kSliceGroups]) {
  scales[0] = __uint_as_float(ptx::byte_permute<0x0444>(codes) >> 1);
  scales[1] = __uint_as_float(ptx::byte_permute<0x1444>(codes) >> 1);
  scales[2] = __uint_as_float(ptx::byte_permute<0x2444>(codes) >> 1);
  scales[3] = __uint_as_float(ptx::byte_permute<0x3444>(codes) >> 1);
}

/// The next slice of an output. `scale`: S * 2^-10.
__device__ inline float add_slice(float slice, float scale, float sum) {
  return __fmaf_rn(slice, scale, sum);
}

/// S * 2^-10, or NaN.
__device__ inline float slice_scale(float scale, bool nan) {
  return nan ? __int_as_float(0x7FC00000) : __fmul_rn(scale, 0x1p-10F);
}

__device__ inline float exponential(float x) {
  const float bounded = x > StatedExp::kMin ? (x < StatedExp::kMax ? x : StatedExp::kMax) : StatedExp::kMin;
  const float n = __fsub_rn(__fmaf_rn(bounded, StatedExp::kLog2E, StatedExp::kRounder), StatedExp::kRounder);
  const float r = __fmaf_rn(-n, StatedExp::kLn2Lower, __fmaf_rn(-n, StatedExp::kLn2Upper, bounded));
  constexpr float kPolynomial[] = {StatedExp::kPolynomial[0], StatedExp::kPolynomial[1],
                                   StatedExp::kPolynomial[2], StatedExp::kPolynomial[3],
                                   StatedExp::kPolynomial[4], StatedExp::kPolynomial[5],
                                   StatedExp::kPolynomial[6]};
  float p = kPolynomial[0];
#pragma unroll
  for (int i = 1; i < 7; ++i) p = __fmaf_rn(p, r, kPolynomial[i]);
  return __fmul_rn(p, power_of_two(__float2int_rn(n)));
}

/// `stated_swiglu_ref` of w1 x and w3 x, which are rounded to BF16 first; to BF16.
__device__ inline Bf16Bits activate(float gate, float up, float swiglu_limit, float routing_weight) {
  const float limit = clamp_limit(swiglu_limit);
  gate = rounded_to_bf16(gate);
  up = rounded_to_bf16(up);
  const float g = gate > limit ? limit : gate;
  const float below = up > limit ? limit : up;
  const float v = below < -limit ? -limit : below;
  const float quotient = __fdiv_rn(g, __fadd_rn(1.0F, exponential(-g)));
  return bf16_bits(__fmul_rn(routing_weight, __fmul_rn(quotient, v)));
}

}  // namespace baleen::BALEEN_ARCH::stated
