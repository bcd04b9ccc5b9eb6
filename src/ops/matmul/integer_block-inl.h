// FP8 activations and FP4 weights as integers: how a block of activations is packed, and the instructions
// that multiply. Included once per instruction set (Highway). What the parts mean: integer_fp4-inl.h.

#if defined(BALEEN_OPS_MATMUL_INTEGER_BLOCK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BALEEN_OPS_MATMUL_INTEGER_BLOCK_INL_H_
#undef BALEEN_OPS_MATMUL_INTEGER_BLOCK_INL_H_
#else
#define BALEEN_OPS_MATMUL_INTEGER_BLOCK_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>

#include "numeric/rounding-inl.h"
#include "ops/matmul/matmul.h"
#include "ops/matmul/unpack-inl.h"

HWY_BEFORE_NAMESPACE();
namespace baleen::HWY_NAMESPACE {

using Int32Tag = hn::RebindToSigned<FloatTag>;
using Int16Tag = hn::Repartition<std::int16_t, FloatTag>;
using Int32Vec = hn::Vec<Int32Tag>;
using Int16Vec = hn::Vec<Int16Tag>;

/// Whether this instruction set does such products on integers.
constexpr bool kIntegerFp4 = HWY_ARCH_X86;

constexpr std::int64_t kGroup = 32;
/// Inputs whose weights fill a vector; groups among them, one in each 128 bits.
constexpr std::int64_t kInputsPerLoad = 8 * kLanes;
constexpr std::int64_t kGroupsPerLoad = kLanes / 4;
/// Four loads have as many groups as a vector has lanes.
constexpr std::int64_t kLoadsTogether = 4;
constexpr std::int64_t kInputsTogether = kLoadsTogether * kInputsPerLoad;
/// 16-bit vectors that a load becomes.
constexpr int kWordVectors = 4;

/// Of the kLanes groups of four loads: group q of load l belongs to accumulator 4 q + l.
constexpr std::int64_t accumulator_of(std::int64_t group) {
  return 4 * (group % kGroupsPerLoad) + group / kGroupsPerLoad;
}

/// A block of activations as the kernel reads it, in the room of 128 float32 values. Word i of vector v of a
/// load has input 4 i + v of the load, byte j of its vector h of low parts input 2 j + h.
struct IntegerBlock {
  std::int16_t high[kActivationBlock];
  std::uint8_t low[kActivationBlock];
  float scale;                                            ///< of an integer sum; NaN if an input is NaN
  std::uint8_t group_has_low[kActivationBlock / kGroup];  ///< 0: every low part is 0
  std::int32_t unused[30];
};
static_assert(sizeof(IntegerBlock) == kActivationBlock * sizeof(float));

/// A doubled weight has its value in the upper byte of a word, and activations are counted in 2^-9, of which
/// high has 32: a sum counts 2^-13. Low parts are multiplied by 8 to be of the same unit.
constexpr int kLowBits = 5;
constexpr float kUnitOfSum = 0x1p-13F;
constexpr std::int16_t kLowFactor = 8;

HWY_INLINE void pack_integer_block(const float* x, float* packed) {
  const FloatTag d;
  const Int32Tag di;
  const WordTag du;
  const ByteTag d8;
  const hn::Rebind<std::int16_t, FloatTag> narrow16;
  const hn::Rebind<std::uint8_t, FloatTag> narrow8;
  const float scale = e8m0_to_float(fp8_scale_code(absolute_maximum_simd(d, x, kActivationBlock)));
  const auto divide = hn::Set(d, 1.0F / scale);
  const auto low_mask = hn::Set(di, (1 << kLowBits) - 1);
  alignas(64) std::int16_t high[kActivationBlock];
  alignas(64) std::uint8_t low[kActivationBlock];
  auto* block = reinterpret_cast<IntegerBlock*>(packed);
  auto poison = hn::Zero(d);  // NaN in a lane that has met NaN
  for (std::int64_t group = 0; group < kActivationBlock / kGroup; ++group) {
    auto low_parts = hn::Zero(di);
    for (std::int64_t i = group * kGroup; i < (group + 1) * kGroup; i += kLanes) {
      const auto rounded = round_e4m3(d, hn::Mul(hn::LoadU(d, x + i), divide));
      poison = hn::Add(poison, hn::Mul(rounded, hn::Zero(d)));
      const auto value = hn::ConvertTo(di, hn::Mul(rounded, hn::Set(d, 512.0F)));
      const auto low_part = hn::And(value, low_mask);
      low_parts = hn::Or(low_parts, low_part);
      hn::Store(hn::DemoteTo(narrow16, hn::ShiftRight<kLowBits>(value)), narrow16, high + i);
      hn::Store(hn::DemoteTo(narrow8, low_part), narrow8, low + i);
    }
    block->group_has_low[group] = hn::AllTrue(di, hn::Eq(low_parts, hn::Zero(di))) ? 0 : 1;
  }
  // The words 4 i + v of two neighbouring i, side by side, are 32 bits that a transposition of four then
  // gathers.
  alignas(16) static constexpr std::uint8_t kPairs[16] = {0, 1, 8,  9,  2, 3, 10, 11,
                                                          4, 5, 12, 13, 6, 7, 14, 15};
  const auto pairs = hn::LoadDup128(d8, kPairs);
  for (std::int64_t load = 0; load < kActivationBlock; load += kInputsPerLoad) {
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
  block->scale = scale * kUnitOfSum + hn::GetLane(hn::SumOfLanes(d, poison));
}

/// Products of 16-bit words, neighbours added.
HWY_INLINE Int32Vec multiply_pairs(Int16Vec a, Int16Vec b) {
#if HWY_TARGET == HWY_AVX3
  return Int32Vec{_mm512_madd_epi16(a.raw, b.raw)};
#elif HWY_TARGET == HWY_AVX2
  return Int32Vec{_mm256_madd_epi16(a.raw, b.raw)};
#elif HWY_TARGET == HWY_SSE4
  return Int32Vec{_mm_madd_epi16(a.raw, b.raw)};
#else
  const Int32Tag d;
  auto upper = hn::Zero(d);
  const auto lower = hn::ReorderWidenMulAccumulate(d, a, b, hn::Zero(d), upper);
  return hn::Add(lower, upper);
#endif
}

/// Products of unsigned low parts and signed bytes, neighbours added; at most 2 * 31 * 12.
HWY_INLINE Int16Vec multiply_low(ByteVec low, ByteVec weights) {
#if HWY_TARGET == HWY_AVX3
  return Int16Vec{_mm512_maddubs_epi16(low.raw, weights.raw)};
#elif HWY_TARGET == HWY_AVX2
  return Int16Vec{_mm256_maddubs_epi16(low.raw, weights.raw)};
#elif HWY_TARGET == HWY_SSE4
  return Int16Vec{_mm_maddubs_epi16(low.raw, weights.raw)};
#else
  const Int16Tag d;
  const auto l = hn::BitCast(d, low), w = hn::BitCast(d, weights);
  const auto even =
      hn::Mul(hn::And(l, hn::Set(d, std::int16_t{0xFF})), hn::ShiftRight<8>(hn::ShiftLeft<8>(w)));
  return hn::Add(even, hn::Mul(hn::ShiftRight<8>(l), hn::ShiftRight<8>(w)));
#endif
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
