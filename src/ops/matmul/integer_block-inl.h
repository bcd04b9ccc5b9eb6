// FP8 activations and FP4 weights as integers: how a block of activations is packed, and the instructions
// that multiply. Included once per instruction set (Highway). What the parts mean: integer_fp4-inl.h.

#if defined(BALEEN_OPS_MATMUL_INTEGER_BLOCK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BALEEN_OPS_MATMUL_INTEGER_BLOCK_INL_H_
#undef BALEEN_OPS_MATMUL_INTEGER_BLOCK_INL_H_
#else
#define BALEEN_OPS_MATMUL_INTEGER_BLOCK_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "numeric/rounding-inl.h"
#include "ops/matmul/group_sums-inl.h"
#include "ops/matmul/unpack-inl.h"

HWY_BEFORE_NAMESPACE();
namespace baleen::HWY_NAMESPACE {

/// Whether this instruction set does such products on integers.
constexpr bool kIntegerFp4 = HWY_ARCH_X86;

/// 16-bit vectors that a load becomes.
constexpr int kWordVectors = 4;

/// A block of activations as the kernel reads it, in the room of 128 float32 values. Word i of vector v of a
/// load has input 4 i + v of the load, byte j of its vector h of low parts input 2 j + h.
struct IntegerBlock {
  std::int16_t high[kActivationGroup];
  std::uint8_t low[kActivationGroup];
  float scales[kActivationGroup / kGroup];  ///< scale an integer sum of a group; NaN if an input is NaN
  /// Bit p of a group: its pair p has a low part that is not 0. Pair 4 i + v: inputs 8 i + v and 8 i + v + 4,
  /// neighbouring words of vector v.
  std::uint16_t low_pairs[kActivationGroup / kGroup];
  std::int32_t unused[26];
};
static_assert(sizeof(IntegerBlock) == kActivationGroup * sizeof(float));

/// An activation, an integer in units of 2^-9, is high + low / 16 in units of 2^-6 or, if the sum of a
/// group's products might then not fit 32 bits, of 2^-5. (Scales have the unit; powers of two leave
/// no trace in results.) A weight's word is its doubled value times 256. Low parts times 16 and a doubled
/// value, or times a word and then divided by 16, are of the unit of high parts times a word.
constexpr int kLowBits = 4;
constexpr std::int16_t kLowFactor = 1 << kLowBits;
constexpr float kWordUnit = 0x1p-9F;
/// Of the magnitudes of a group, in 2^-9: times 12 * 256 / 8 it is below 2^31.
constexpr std::int32_t kLargestSumOfFineUnit = 5'592'000;
static_assert(kLargestSumOfFineUnit < (std::int64_t{1} << 31) / (12 * 256 / 8));
static_assert(kGroup * 448 * 512 < (std::int64_t{1} << 31) / (12 * 256 / 16));
static_assert(448 << 6 <= 0x7FFF);

/// Pairs of inputs of a group of which at least one has its bit set.
constexpr std::uint16_t pairs_of_inputs(std::uint32_t inputs) {
  const std::uint32_t nibbles = (inputs | inputs >> 4) & 0x0F0F0F0Fu;
  const std::uint32_t bytes = (nibbles | nibbles >> 4) & 0x00FF00FFu;
  return static_cast<std::uint16_t>(bytes | bytes >> 8);
}

/// Of groups of kScaled values with a scale each: 128, or kGroup.
template <int kScaled>
HWY_INLINE void pack_integer_block(const float* x, float* packed) {
  const FloatTag d;
  const Int32Tag di;
  const WordTag du;
  const ByteTag d8;
  const hn::Rebind<std::int16_t, FloatTag> narrow16;
  const hn::Rebind<std::uint8_t, FloatTag> narrow8;
  static_assert(kScaled == kActivationGroup || kScaled == kGroup);
  float scales[kActivationGroup / kGroup];
  alignas(64) std::int32_t values[kActivationGroup];  // in 2^-9
  auto poison = hn::Zero(d);                          // NaN in a lane that has met NaN
  std::int32_t largest_sum = 0;                       // of a group's magnitudes
  for (std::int64_t group = 0; group < kActivationGroup; group += kGroup) {
    float& scale = scales[group / kGroup];
    scale = group % kScaled == 0 ? e8m0_to_float(fp8_scale_code(absolute_maximum_simd(d, x + group, kScaled)))
                                 : scales[group / kGroup - 1];
    const auto divide = hn::Set(d, 1.0F / scale);
    auto sum = hn::Zero(di);
    for (std::int64_t i = group; i < group + kGroup; i += kLanes) {
      const auto rounded = round_e4m3(d, hn::Mul(hn::LoadU(d, x + i), divide));
      poison = hn::Add(poison, hn::Mul(rounded, hn::Zero(d)));
      const auto value = hn::ConvertTo(di, hn::Mul(rounded, hn::Set(d, 512.0F)));
      sum = hn::Add(sum, hn::Abs(value));
      hn::Store(value, di, values + i);
    }
    largest_sum = std::max(largest_sum, hn::GetLane(hn::SumOfLanes(di, sum)));
  }
  // Cut in 2^-6 or 2^-5, of which low parts are sixteenths.
  const bool fine = largest_sum <= kLargestSumOfFineUnit;
  const int unit_bits = fine ? 3 : 4;
  const auto low_mask = hn::Set(di, (1 << unit_bits) - 1);
  alignas(64) std::int16_t high[kActivationGroup];
  alignas(64) std::uint8_t low[kActivationGroup];
  auto* block = reinterpret_cast<IntegerBlock*>(packed);
  for (std::int64_t group = 0; group < kActivationGroup / kGroup; ++group) {
    std::uint32_t has_low = 0;
    for (std::int64_t i = group * kGroup; i < (group + 1) * kGroup; i += kLanes) {
      const auto value = hn::Load(di, values + i);
      const auto low_part = hn::ShiftLeftSame(hn::And(value, low_mask), kLowBits - unit_bits);
      std::uint8_t bits[4] = {};
      hn::StoreMaskBits(di, hn::Ne(low_part, hn::Zero(di)), bits);
      std::uint32_t of_lanes;
      std::memcpy(&of_lanes, bits, sizeof(of_lanes));
      has_low |= of_lanes << (i - group * kGroup);
      hn::Store(hn::DemoteTo(narrow16, hn::ShiftRightSame(value, unit_bits)), narrow16, high + i);
      hn::Store(hn::DemoteTo(narrow8, low_part), narrow8, low + i);
    }
    block->low_pairs[group] = pairs_of_inputs(has_low);
  }
  // The words 4 i + v of two neighbouring i, side by side, are 32 bits that a transposition of four then
  // gathers.
  alignas(16) static constexpr std::uint8_t kPairs[16] = {0, 1, 8,  9,  2, 3, 10, 11,
                                                          4, 5, 12, 13, 6, 7, 14, 15};
  const auto pairs = hn::LoadDup128(d8, kPairs);
  for (std::int64_t load = 0; load < kActivationGroup; load += kInputsPerLoad) {
    auto* words = reinterpret_cast<std::uint8_t*>(high + load);
    for (std::int64_t v = 0; v < kWordVectors; ++v) {
      std::uint8_t* at = words + v * 4 * kLanes;
      hn::Store(hn::TableLookupBytes(hn::Load(d8, at), pairs), d8, at);
    }
    WordVec gathered[kWordVectors];
    hn::LoadInterleaved4(du, reinterpret_cast<const std::uint32_t*>(words), gathered[0], gathered[1],
                         gathered[2], gathered[3]);
    for (std::int64_t v = 0; v < kWordVectors; ++v) {
      hn::Store(hn::BitCast(Int16Tag(), gathered[v]), Int16Tag(), block->high + load + v * 2 * kLanes);
    }
    ByteVec even, odd;
    hn::LoadInterleaved2(d8, low + load, even, odd);
    hn::Store(even, d8, block->low + load);
    hn::Store(odd, d8, block->low + load + 4 * kLanes);
  }
  const float nan = hn::GetLane(hn::SumOfLanes(d, poison));
  for (std::int64_t group = 0; group < kActivationGroup / kGroup; ++group)
    block->scales[group] = scales[group] * ((fine ? 0x1p-6F : 0x1p-5F) * kWordUnit) + nan;
}

/// Whether this machine multiplies and adds pairs of words in one instruction (AVX-512 VNNI).
HWY_INLINE bool has_word_dots() {
#if HWY_TARGET == HWY_AVX3
  return __builtin_cpu_supports("avx512vnni") != 0;
#else
  return false;
#endif
}

/// sum + multiply_pairs(a, b). (Highway's target that has the instruction gives the compiler the flag of
/// another extension, too, so it is written out.)
template <bool kWordDots>
HWY_INLINE Int32Vec add_pairs(Int32Vec sum, Int16Vec a, Int16Vec b) {
#if HWY_TARGET == HWY_AVX3
  if constexpr (kWordDots) {
    asm("vpdpwssd %2, %1, %0" : "+v"(sum.raw) : "v"(a.raw), "v"(b.raw));
    return sum;
  }
#endif
  return hn::Add(sum, multiply_pairs(a, b));
}

/// Doubled values of a load's even and odd inputs.
struct WeightBytes {
  HWY_INLINE explicit WeightBytes(ByteVec codes) {
    const ByteTag d;
    const hn::Repartition<std::uint16_t, FloatTag> d16;
    alignas(16) static constexpr std::int8_t kDoubled[16] = {0, 1,  2,  3,  4,  6,  8,  12,
                                                             0, -1, -2, -3, -4, -6, -8, -12};
    const auto table = hn::LoadDup128(d, reinterpret_cast<const std::uint8_t*>(kDoubled));
    const auto nibble = hn::Set(d, std::uint8_t{15});
    const auto upper = hn::BitCast(d, hn::ShiftRight<4>(hn::BitCast(d16, codes)));
    half[0] = hn::TableLookupBytes(table, hn::And(codes, nibble));
    half[1] = hn::TableLookupBytes(table, hn::And(upper, nibble));
  }
  ByteVec half[2];

  /// 256 times the doubled values of inputs 4 i + v.
  template <int v>
  HWY_INLINE Int16Vec Words() const {
    const Int16Tag d;
    const auto bytes = hn::BitCast(d, half[v % 2]);
    return v < 2 ? hn::ShiftLeft<8>(bytes) : hn::And(bytes, hn::Set(d, static_cast<std::int16_t>(0xFF00)));
  }
};

}  // namespace baleen::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // BALEEN_OPS_MATMUL_INTEGER_BLOCK_INL_H_
