// Unpacks weights into float vectors, one instruction set at a time (Highway).
//
// A vector of 32-bit lanes is loaded from a row; each lane holds P packed values (1 float32, 2 BF16, 4 FP8 or
// Q8, 8 FP4), so a load covers a block of P * Lanes inputs. `RowBlock::Get<i>()` yields the i-th of P float
// vectors. `RowBlock::LoadInputs` gives activations in the same order, and `kActivationFactor` is what they
// must still be multiplied by, so nothing is shuffled here. `scale`, of FP8 and FP4, is still to multiply;
// values of NVFP4, products of six bits at most, have theirs.

#if defined(BALEEN_OPS_MATMUL_UNPACK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BALEEN_OPS_MATMUL_UNPACK_INL_H_
#undef BALEEN_OPS_MATMUL_UNPACK_INL_H_
#else
#define BALEEN_OPS_MATMUL_UNPACK_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

#include "ops/matmul/weight_matrix.h"

HWY_BEFORE_NAMESPACE();
namespace baleen::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::CappedTag<float, 16>;
using WordTag = hn::RebindToUnsigned<FloatTag>;
using ByteTag = hn::Repartition<std::uint8_t, FloatTag>;
using FloatVec = hn::Vec<FloatTag>;
using WordVec = hn::Vec<WordTag>;
using ByteVec = hn::Vec<ByteTag>;
constexpr std::int64_t kLanes = static_cast<std::int64_t>(hn::MaxLanes(FloatTag()));

constexpr std::int64_t packed_per_lane(WeightFormat format) {
  return format == WeightFormat::kF32    ? 1
         : format == WeightFormat::kBF16 ? 2
         : is_fp8(format)                ? 4
         : format == WeightFormat::kQ8   ? 4
                                         : 8;
}

constexpr bool has_scales(WeightFormat format) {
  return is_fp8(format) || format == WeightFormat::kFp4 || format == WeightFormat::kQ8;
}

/// Where a row is, and its scale for one block of inputs.
struct RowCursor {
  const std::uint8_t* codes = nullptr;
  const float* block_scales = nullptr;
  const std::uint8_t* group_scales = nullptr;
};

template <WeightFormat kFormat>
HWY_INLINE RowCursor cursor_of(const WeightMatrix& weight, std::int64_t row) {
  RowCursor cursor{reinterpret_cast<const std::uint8_t*>(weight.data) + row * weight.row_bytes(), nullptr,
                   nullptr};
  if constexpr (kFormat == WeightFormat::kFp8) {
    cursor.block_scales = weight.block_scales + row / 128 * ((weight.cols + 127) / 128);
  }
  if constexpr (kFormat == WeightFormat::kFp8x32)
    cursor.group_scales = weight.group_scales + row / 32 * (weight.cols / 32);
  if constexpr (kFormat == WeightFormat::kQ8)
    cursor.block_scales = weight.block_scales + row * (weight.cols / 32);
  if constexpr (kFormat == WeightFormat::kFp4 || kFormat == WeightFormat::kInt8)
    cursor.group_scales = weight.group_scales + row * (weight.cols / 32);
  if constexpr (kFormat == WeightFormat::kNvfp4)
    cursor.group_scales = weight.group_scales + row * (weight.cols / 16);
  return cursor;
}

/// Constructors are written out: those that the compiler supplies lack the instruction set's attributes
/// (Arm).
template <WeightFormat kFormat>
struct RowBlock;

template <>
struct RowBlock<WeightFormat::kF32> {
  static constexpr float kActivationFactor = 1.0F;
  HWY_INLINE RowBlock() {}
  FloatVec values;
  HWY_INLINE void Load(const RowCursor& row, std::int64_t k) {
    const FloatTag d;
    values = hn::BitCast(d, hn::LoadU(hn::Repartition<std::uint8_t, FloatTag>(), row.codes + 4 * k));
  }
  template <int kPart>
  HWY_INLINE FloatVec Get() const {
    return values;
  }
  static HWY_INLINE void LoadInputs(const float* from, FloatVec (&inputs)[1]) {
    inputs[0] = hn::LoadU(FloatTag(), from);
  }
};

template <>
struct RowBlock<WeightFormat::kBF16> {
  static constexpr float kActivationFactor = 1.0F;
  HWY_INLINE RowBlock() {}
  WordVec words;
  HWY_INLINE void Load(const RowCursor& row, std::int64_t k) {
    words = hn::BitCast(WordTag(), hn::LoadU(hn::Repartition<std::uint8_t, WordTag>(), row.codes + 2 * k));
  }
  template <int kPart>
  HWY_INLINE FloatVec Get() const {
    const WordTag du;
    return hn::BitCast(FloatTag(),
                       kPart == 0 ? hn::ShiftLeft<16>(words) : hn::And(words, hn::Set(du, 0xFFFF0000u)));
  }
  static HWY_INLINE void LoadInputs(const float* from, FloatVec (&inputs)[2]) {
    hn::LoadInterleaved2(FloatTag(), from, inputs[0], inputs[1]);
  }
};

// An e4m3 code moved into BF16's fields reads as its value times 2^-120; two of them are a 32-bit lane, a
// shift or a mask from float32. Half of the missing factor goes to the scale and half to the activations, so
// that neither leaves float32's range; both are exact. Subnormal codes are subnormal there too, which AMD's
// and Arm's multipliers take in their stride (Intel's take some 150 cycles; one code in 6,000 of normally
// distributed weights is subnormal). Through float16's fields they would be normal, but a conversion of 8
// values takes Zen 4 two cycles (decode of one thread 14.6 against 26.8 GB/s).
//
// A product is a multiple of 2^-149 if the activation, times its factor, is at least 2^3. Then sums are exact
// where they are subnormal, and bits do not depend on where the missing factor is. Activations below 2^-57
// therefore count as zero.
template <>
struct RowBlock<WeightFormat::kFp8> {
  static constexpr float kActivationFactor = 0x1p60F;
  static constexpr float kSmallestActivation = 0x1p3F;  ///< times the factor
  HWY_INLINE RowBlock() : scale(hn::Zero(FloatTag())) {}
  hn::Vec<hn::Repartition<std::int16_t, FloatTag>> fields[2];  // of even and odd inputs
  FloatVec scale;
  HWY_INLINE void Load(const RowCursor& row, std::int64_t k) {
    LoadCodes(row, k);
    scale = hn::Set(FloatTag(), row.block_scales[k / 128] * 0x1p60F);
  }
  HWY_INLINE void LoadCodes(const RowCursor& row, std::int64_t k) {
    const hn::Repartition<std::int16_t, FloatTag> d16;
    const auto pairs = hn::BitCast(d16, hn::LoadU(hn::Repartition<std::uint8_t, FloatTag>(), row.codes + k));
    // An arithmetic shift of a code in the upper byte by four leaves its sign in place, exponent and mantissa
    // at bits 10..4, and copies of the sign between them that the mask takes out.
    const auto mask = hn::Set(d16, static_cast<std::int16_t>(0x87F0));
    fields[0] = hn::And(hn::ShiftRight<4>(hn::ShiftLeft<8>(pairs)), mask);
    fields[1] = hn::And(hn::ShiftRight<4>(pairs), mask);
  }
  template <int kPart>
  HWY_INLINE FloatVec Get() const {
    const WordTag du;
    const auto both = hn::BitCast(du, fields[kPart / 2]);
    return hn::BitCast(FloatTag(),
                       kPart % 2 == 0 ? hn::ShiftLeft<16>(both) : hn::And(both, hn::Set(du, 0xFFFF0000u)));
  }
  static HWY_INLINE void LoadInputs(const float* from, FloatVec (&inputs)[4]) {
    hn::LoadInterleaved4(FloatTag(), from, inputs[0], inputs[2], inputs[1], inputs[3]);
  }
};

/// Of an e8m0 code, not NaN's. Code 0 is 2^-127, whose float32 bits are 0x00400000.
HWY_INLINE float group_scale(std::uint8_t code) {
  return std::bit_cast<float>(std::max(std::uint32_t{code} << 23, std::uint32_t{0x00400000}));
}

/// Of scales of one per 32 inputs, which are those of 8 lanes with four each: the lanes' own.
HWY_INLINE FloatVec scales_of_quads(float first, [[maybe_unused]] float second) {
  const FloatTag d;
  if constexpr (kLanes == 16) {
    return hn::IfThenElse(hn::FirstN(d, 8), hn::Set(d, first), hn::Set(d, second));
  } else {
    return hn::Set(d, first);
  }
}

template <>
struct RowBlock<WeightFormat::kFp8x32> : RowBlock<WeightFormat::kFp8> {
  HWY_INLINE RowBlock() {}
  HWY_INLINE void Load(const RowCursor& row, std::int64_t k) {
    LoadCodes(row, k);
    const std::uint8_t* const scales = row.group_scales + k / 32;
    scale = hn::Mul(scales_of_quads(group_scale(scales[0]), group_scale(scales[kLanes / 16])),
                    hn::Set(FloatTag(), 0x1p60F));
  }
};

/// A byte of each lane, sign-extended; one scale per 32 inputs = per 8 lanes.
template <>
struct RowBlock<WeightFormat::kQ8> {
  static constexpr float kActivationFactor = 1.0F;
  HWY_INLINE RowBlock() {}
  WordVec words;
  FloatVec scale;
  HWY_INLINE void Load(const RowCursor& row, std::int64_t k) {
    words = hn::BitCast(WordTag(), hn::LoadU(hn::Repartition<std::uint8_t, FloatTag>(), row.codes + k));
    const float* const scales = row.block_scales + k / 32;
    scale = scales_of_quads(scales[0], scales[kLanes / 16]);
  }
  template <int kPart>
  HWY_INLINE FloatVec Get() const {
    const hn::RebindToSigned<FloatTag> di;
    const auto at_top = hn::ShiftLeft<24 - 8 * kPart>(hn::BitCast(di, words));
    return hn::ConvertTo(FloatTag(), hn::ShiftRight<24>(at_top));
  }
  static HWY_INLINE void LoadInputs(const float* from, FloatVec (&inputs)[4]) {
    hn::LoadInterleaved4(FloatTag(), from, inputs[0], inputs[1], inputs[2], inputs[3]);
  }
};

/// One e8m0 scale per 32 inputs = per 4 lanes. Code 0 is 2^-127, whose float32 bits are 0x00400000.
HWY_INLINE FloatVec group_scales(const std::uint8_t* scales) {
  const WordTag du;
  std::uint32_t packed = 0;
  std::memcpy(&packed, scales, kLanes / 4);
  const auto shift = hn::ShiftLeft<3>(hn::ShiftRight<2>(hn::Iota(du, 0)));
  const auto code = hn::And(hn::Shr(hn::Set(du, packed), shift), hn::Set(du, 0xFFu));
  return hn::BitCast(FloatTag(), hn::Max(hn::ShiftLeft<23>(code), hn::Set(du, 0x00400000u)));
}

/// Values of positive e4m3 codes that lie in float16's fields, where they read as 2^-8 of that.
HWY_INLINE FloatVec e4m3_values(hn::Vec<hn::Rebind<std::uint16_t, FloatTag>> fields) {
  const hn::Rebind<hwy::float16_t, FloatTag> d16;
  return hn::Mul(hn::PromoteTo(FloatTag(), hn::BitCast(d16, fields)), hn::Set(FloatTag(), 0x1p8F));
}

/// In lane l of inputs[part]: from[input_of(part, l)].
HWY_INLINE void gather_inputs(const float* from, std::int64_t (*input_of)(std::int64_t, std::int64_t),
                              FloatVec (&inputs)[8]) {
  const FloatTag d;
  for (std::int64_t part = 0; part < 8; ++part) {
    alignas(64) float values[kLanes];
    for (std::int64_t lane = 0; lane < kLanes; ++lane) values[lane] = from[input_of(part, lane)];
    inputs[part] = hn::Load(d, values);
  }
}

#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
// With 16 lanes the whole e2m1 table fits one register and a permutation looks it up, whatever the upper bits
// are.
template <>
struct RowBlock<WeightFormat::kFp4> {
  static constexpr float kActivationFactor = 1.0F;
  HWY_INLINE RowBlock() {}
  WordVec words;
  FloatVec scale;
  HWY_INLINE void Load(const RowCursor& row, std::int64_t k) {
    words = hn::BitCast(WordTag(), hn::LoadU(hn::Repartition<std::uint8_t, WordTag>(), row.codes + k / 2));
    scale = group_scales(row.group_scales + k / 32);
  }
  template <int kPart>
  HWY_INLINE FloatVec Get() const {
    alignas(64) static constexpr float kTable[16] = {0.0F,  0.5F,  1.0F,  1.5F,  2.0F,  3.0F,  4.0F,  6.0F,
                                                     -0.0F, -0.5F, -1.0F, -1.5F, -2.0F, -3.0F, -4.0F, -6.0F};
    const auto nibble = kPart == 0 ? words : hn::ShiftRight<4 * kPart>(words);
    return FloatVec{_mm512_permutexvar_ps(nibble.raw, hn::Load(FloatTag(), kTable).raw)};
  }
  static std::int64_t input_of(std::int64_t part, std::int64_t lane) { return 8 * lane + part; }
  static HWY_INLINE void LoadInputs(const float* from, FloatVec (&inputs)[8]) {
    gather_inputs(from, input_of, inputs);
  }
};
template <>
struct RowBlock<WeightFormat::kNvfp4> : RowBlock<WeightFormat::kFp4> {
  HWY_INLINE RowBlock() {}
  /// Two lanes are a group of 16.
  HWY_INLINE void Load(const RowCursor& row, std::int64_t k) {
    const hn::Half<FloatTag> half;
    words = hn::BitCast(WordTag(), hn::LoadU(hn::Repartition<std::uint8_t, WordTag>(), row.codes + k / 2));
    const auto codes =
        hn::PromoteTo(hn::RebindToUnsigned<decltype(half)>(),
                      hn::LoadU(hn::Rebind<std::uint8_t, decltype(half)>(), row.group_scales + k / 16));
    const auto twice = hn::Or(hn::ShiftLeft<7>(codes), hn::ShiftLeft<23>(codes));
    scale = e4m3_values(hn::BitCast(hn::Rebind<std::uint16_t, FloatTag>(), twice));
  }
  template <int kPart>
  HWY_INLINE FloatVec Get() const {
    return hn::Mul(RowBlock<WeightFormat::kFp4>::Get<kPart>(), scale);
  }
};
#else
// Byte tables give the two bytes of each value's BF16 form; interleaved they are BF16 pairs, half a step from
// float32. All eight vectors come out of shared work, so they are made together and kept in the (L1-resident)
// tile.
template <>
struct RowBlock<WeightFormat::kFp4> {
  static constexpr float kActivationFactor = 1.0F;
  HWY_INLINE RowBlock() {}
  alignas(64) float values[8 * kLanes];
  FloatVec scale;
  HWY_INLINE void Load(const RowCursor& row, std::int64_t k) {
    LoadCodes(row, k);
    scale = group_scales(row.group_scales + k / 32);
  }
  HWY_INLINE void LoadCodes(const RowCursor& row, std::int64_t k) {
    const FloatTag d;
    const WordTag du;
    const hn::Repartition<std::uint8_t, FloatTag> db;
    const hn::Repartition<std::uint16_t, FloatTag> dh;
    alignas(16) static constexpr std::uint8_t kHigh[16] = {0x00, 0x3F, 0x3F, 0x3F, 0x40, 0x40, 0x40, 0x40,
                                                           0x80, 0xBF, 0xBF, 0xBF, 0xC0, 0xC0, 0xC0, 0xC0};
    alignas(16) static constexpr std::uint8_t kLow[16] = {0x00, 0x00, 0x80, 0xC0, 0x00, 0x40, 0x80, 0xC0,
                                                          0x00, 0x00, 0x80, 0xC0, 0x00, 0x40, 0x80, 0xC0};
    const auto high_table = hn::LoadDup128(db, kHigh);
    const auto low_table = hn::LoadDup128(db, kLow);
    const auto packed = hn::LoadU(db, row.codes + k / 2);
    const auto mask = hn::Set(db, 0x0F);
    const auto odd = hn::And(hn::BitCast(db, hn::ShiftRight<4>(hn::BitCast(dh, packed))), mask);
    const auto put = [&](auto nibbles, std::int64_t part) HWY_ATTR {
      const auto low = hn::TableLookupBytes(low_table, nibbles);
      const auto high = hn::TableLookupBytes(high_table, nibbles);
      const auto first = hn::BitCast(du, hn::InterleaveLower(db, low, high));
      const auto second = hn::BitCast(du, hn::InterleaveUpper(db, low, high));
      const auto upper_half = hn::Set(du, 0xFFFF0000u);
      float* to = values + part * kLanes;
      hn::Store(hn::BitCast(d, hn::ShiftLeft<16>(first)), d, to);
      hn::Store(hn::BitCast(d, hn::And(first, upper_half)), d, to + kLanes);
      hn::Store(hn::BitCast(d, hn::ShiftLeft<16>(second)), d, to + 2 * kLanes);
      hn::Store(hn::BitCast(d, hn::And(second, upper_half)), d, to + 3 * kLanes);
    };
    put(hn::And(packed, mask), 0);
    put(odd, 4);
  }
  template <int kPart>
  HWY_INLINE FloatVec Get() const {
    return hn::Load(FloatTag(), values + kPart * kLanes);
  }
  /// Part 4 h + 2 u + o: nibble h of bytes 8 u + 2 (lane % 4) + o in the lane's 16-byte piece of 32 inputs.
  static std::int64_t input_of(std::int64_t part, std::int64_t lane) {
    return lane / 4 * 32 + (part / 2 % 2 * 8 + lane % 4 * 2 + part % 2) * 2 + part / 4;
  }
  static HWY_INLINE void LoadInputs(const float* from, FloatVec (&inputs)[8]) {
    gather_inputs(from, input_of, inputs);
  }
};
template <>
struct RowBlock<WeightFormat::kNvfp4> : RowBlock<WeightFormat::kFp4> {
  HWY_INLINE RowBlock() {}
  /// Parts 0, 1, 4 and 5 are of the first 16 inputs of each 32 (`input_of`).
  HWY_INLINE void Load(const RowCursor& row, std::int64_t k) {
    const FloatTag d;
    LoadCodes(row, k);
    const FloatVec scales[2] = {half_scales(row.group_scales + k / 16, 0),
                                half_scales(row.group_scales + k / 16, 1)};
    for (int part = 0; part < 8; ++part) {
      float* at = values + part * kLanes;
      hn::Store(hn::Mul(hn::Load(d, at), scales[part / 2 % 2]), d, at);
    }
  }

 private:
  /// Of either half of each four lanes' 32 inputs.
  static HWY_INLINE FloatVec half_scales(const std::uint8_t* scales, std::uint32_t half) {
    const WordTag du;
    std::uint32_t packed = 0;
    std::memcpy(&packed, scales, kLanes / 2);
    const auto shift = hn::Add(hn::ShiftLeft<4>(hn::ShiftRight<2>(hn::Iota(du, 0))), hn::Set(du, 8 * half));
    const auto code = hn::And(hn::Shr(hn::Set(du, packed), shift), hn::Set(du, 0xFFu));
    return e4m3_values(hn::TruncateTo(hn::Rebind<std::uint16_t, FloatTag>(), hn::ShiftLeft<7>(code)));
  }
};
#endif

}  // namespace baleen::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // BALEEN_OPS_MATMUL_UNPACK_INL_H_
