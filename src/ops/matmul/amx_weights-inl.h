// Weights as AMX multiplies them: BF16 values in slices of 32 inputs, of which a tile has one of each of 16
// weight rows. Included once per instruction set (Highway).
//
// FP8 and FP4 values, and activations rounded to FP8, are exact in BF16. AMX takes subnormal numbers as zero;
// none occurs. An activation rounded to FP8 is a multiple of 2^-31 and one rounded to BF16, which meets FP8
// alone, of 2^-64; a weight is a multiple of 2^-10 (FP8 in blocks of 128, NVFP4), 2^-58 (FP8 in blocks of 32,
// below) or 2^-91 (FP4, below): sums are multiples of 2^-122.

#if defined(BALEEN_OPS_MATMUL_AMX_WEIGHTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BALEEN_OPS_MATMUL_AMX_WEIGHTS_INL_H_
#undef BALEEN_OPS_MATMUL_AMX_WEIGHTS_INL_H_
#else
#define BALEEN_OPS_MATMUL_AMX_WEIGHTS_INL_H_
#endif

#include <hwy/highway.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "numeric/bf16.h"
#include "numeric/block_scale.h"
#include "numeric/e2m1.h"
#include "ops/matmul/bf16_dots-inl.h"
#include "ops/matmul/unpack-inl.h"

#if HWY_TARGET == HWY_AVX3

HWY_BEFORE_NAMESPACE();
namespace baleen::HWY_NAMESPACE {

constexpr std::int64_t kSlice = 32;
constexpr std::int64_t kSlicePairs = 16;  ///< 32-bit words of a slice
constexpr int kSlicesPerBlock = 4;
constexpr std::int64_t kTileRows = 16;  ///< weight rows of a tile
/// Inputs of a panel, of which the first-level cache holds two of 16 weight rows.
constexpr std::int64_t kAmxPanelInputs = 512;
constexpr std::int64_t kPanelBlocks = kAmxPanelInputs / kActivationGroup;
constexpr std::int64_t kPanelSlices = kAmxPanelInputs / kSlice;

/// kRows weight rows, 512 inputs of each or fewer.
template <std::int64_t kRows>
struct AmxPanel {
  alignas(64) std::uint16_t values[kRows][kAmxPanelInputs + kSlice];  ///< rows in different sets of the cache
  alignas(64) float scales[kPanelBlocks * kRows];                     ///< [blocks of 128 inputs, kRows]
  static constexpr std::int64_t kRowBytes = (kAmxPanelInputs + kSlice) * 2;
};

/// Bytes of packed weights.
template <WeightFormat kFormat>
constexpr std::int64_t code_bytes(std::int64_t num_inputs) {
  return is_fp8(kFormat) ? num_inputs : num_inputs / 2;
}

/// Writes inputs k to k + count - 1 of a weight row, a multiple of 128 up to 512, to `values`, and the scale
/// of block b to scales[b * scale_stride], which has room for four. Word w of a block has the pair of inputs
/// that begins with `input_of(w)`, counted from the beginning of the block.
template <WeightFormat kFormat>
class AmxWeights;

template <>
class AmxWeights<WeightFormat::kFp8> {
 public:
  HWY_INLINE AmxWeights() {}
  HWY_INLINE void Unpack(const RowCursor& row, std::int64_t k, std::int64_t count, std::uint16_t* values,
                         float* scales, std::int64_t scale_stride) const {
    const Unpacker unpacker = unpacker_;  // in registers: stores might change the member
    for (std::int64_t at = 0; at < count; at += 2 * kSlice) {
      WordVec pairs[Unpacker::kVectors];
      unpacker.Unpack(row, k + at, pairs);
      hn::Store(pairs[0], WordTag(), reinterpret_cast<std::uint32_t*>(values + at));
      hn::Store(pairs[1], WordTag(), reinterpret_cast<std::uint32_t*>(values + at + kSlice));
    }
    for (std::int64_t block = 0; block < count / kActivationGroup; ++block) {
      scales[block * scale_stride] = row.block_scales[k / kActivationGroup + block];
    }
  }
  static constexpr std::int64_t input_of(std::int64_t word) {
    const std::int64_t slice = word / kSlicePairs, lane = word % kSlicePairs;
    return slice / 2 * 2 * kSlice + lane / 4 * 16 + slice % 2 * 8 + lane % 4 * 2;
  }

 private:
  using Unpacker = Bf16Unpacker<WeightFormat::kFp8>;
  Unpacker unpacker_;
};

/// Of a block of 128 inputs the largest of the four scales, and how often the others halve it.
struct SharedScale {
  float largest;
  std::uint8_t shifts[kSlicesPerBlock];

  HWY_INLINE explicit SharedScale(const std::uint8_t* codes) {
    const std::uint8_t most = std::max(std::max(codes[0], codes[1]), std::max(codes[2], codes[3]));
    largest = group_scale(most);
    for (int i = 0; i < kSlicesPerBlock; ++i) shifts[i] = static_cast<std::uint8_t>(most - codes[i]);
  }
};

/// Scales of 32 inputs each: a block has the largest of its four, and the others' share of it, 2^-d, enters
/// their values. Values with d above 49 count as zero: all are below 2^-50 of what its largest scale could
/// hold.
template <>
class AmxWeights<WeightFormat::kFp8x32> {
 public:
  HWY_INLINE AmxWeights() {}
  HWY_INLINE void Unpack(const RowCursor& row, std::int64_t k, std::int64_t count, std::uint16_t* values,
                         float* scales, std::int64_t scale_stride) const {
    const Unpacker unpacker = unpacker_;  // in registers: stores might change the member
    for (std::int64_t block = 0; block < count; block += kActivationGroup) {
      const SharedScale scale(row.group_scales + (k + block) / kSlice);
      scales[block / kActivationGroup * scale_stride] = scale.largest;
      for (std::int64_t at = 0; at < kActivationGroup; at += 2 * kSlice) {
        WordVec pairs[Unpacker::kVectors];
        unpacker.Unpack(row, k + block + at, pairs);
        for (std::int64_t v = 0; v < Unpacker::kVectors; ++v) {
          hn::Store(halved(pairs[v], scale.shifts + at / kSlice), WordTag(),
                    reinterpret_cast<std::uint32_t*>(values + block + at + v * kSlice));
        }
      }
    }
  }
  static constexpr std::int64_t input_of(std::int64_t word) {
    return AmxWeights<WeightFormat::kFp8>::input_of(word);
  }

 private:
  using Unpacker = Bf16Unpacker<WeightFormat::kFp8x32>;
  static constexpr std::uint16_t kLargestShift = 49;

  /// Pairs of BF16 values times 2^-shifts[0] in the lower eight lanes, and 2^-shifts[1] in the upper ones.
  static HWY_INLINE WordVec halved(WordVec pairs, const std::uint8_t* shifts) {
    const hn::Repartition<std::uint16_t, FloatTag> d;
    const auto value = hn::BitCast(d, pairs);
    const auto of_lanes = [&](auto lower, auto upper) HWY_ATTR {
      return hn::IfThenElse(hn::FirstN(d, 16), hn::Set(d, static_cast<std::uint16_t>(lower)),
                            hn::Set(d, static_cast<std::uint16_t>(upper)));
    };
    const auto shift = of_lanes(shifts[0] << 7, shifts[1] << 7);
    // Zero and NaN stay what they are.
    const auto below =
        hn::Sub(hn::And(value, hn::Set(d, std::uint16_t{0x7FFF})), hn::Set(d, std::uint16_t{1}));
    const auto is_number = hn::Lt(below, hn::Set(d, std::uint16_t{0x7F7F}));
    const auto scaled = hn::IfThenElse(is_number, hn::Sub(value, shift), value);
    const auto kept =
        of_lanes(shifts[0] > kLargestShift ? 0 : 0xFFFF, shifts[1] > kLargestShift ? 0 : 0xFFFF);
    return hn::BitCast(WordTag(), hn::And(scaled, kept));
  }

  Unpacker unpacker_;
};

/// Groups of 32 weights have scales of their own, all powers of two. A block has the largest of its four, and
/// the others' share of it, 2^-d, enters their values. Groups with d above 90 count as zero: in a block whose
/// activations are within 2^50 of each other or zero, as all of one scale are, they do not show beside any
/// product of the others.
constexpr int kLargestScaleShift = 90;

/// tables.values[d]: lower bytes of the BF16 values of all codes times 2^-d, then their upper bytes; zeros
/// at the end.
struct ShiftedFp4Tables {
  alignas(64) std::uint8_t values[kLargestScaleShift + 2][64];
};

inline const ShiftedFp4Tables& shifted_fp4_tables() {
  static const ShiftedFp4Tables tables = [] {
    ShiftedFp4Tables made = {};
    for (int shift = 0; shift <= kLargestScaleShift; ++shift) {
      for (int code = 0; code < 16; ++code) {
        const Bf16Bits bits =
            float_to_bf16(std::ldexp(e2m1_to_float(static_cast<std::uint8_t>(code)), -shift));
        made.values[shift][code] = static_cast<std::uint8_t>(bits & 0xFF);
        made.values[shift][16 + code] = static_cast<std::uint8_t>(bits >> 8);
      }
    }
    return made;
  }();
  return tables;
}

template <>
class AmxWeights<WeightFormat::kFp4> {
 public:
  HWY_INLINE AmxWeights() : tables_(shifted_fp4_tables().values[0]) {}

  HWY_INLINE void Unpack(const RowCursor& row, std::int64_t k, std::int64_t count, std::uint16_t* values,
                         float* scales, std::int64_t scale_stride) const {
    static constexpr Fp4Places kPlaces(false);
    const ByteVec shifts = hn::Load(ByteTag(), kPlaces.shifts);
    const ByteVec upper = hn::Load(ByteTag(), kPlaces.upper);
    const std::uint8_t* const tables = tables_;
    alignas(16) std::uint8_t group_shifts[kPanelSlices];
    split_scales(row.group_scales + k / kSlice, count / kSlice, group_shifts, scales, scale_stride);
    asm("" : "+m"(group_shifts));  // loads of bytes: GCC else extracts each from a vector, two instructions
    const std::uint8_t* codes = row.codes + k / 2;
    for (std::int64_t group = 0; group < count / kSlice; ++group) {
      const ByteVec places = fp4_places(codes + group * (kSlice / 2), shifts, upper);
      hn::Store(look_up_bytes(places, tables + group_shifts[group] * 64), ByteTag(),
                reinterpret_cast<std::uint8_t*>(values + group * kSlice));
    }
  }

  static constexpr std::int64_t input_of(std::int64_t word) {
    const std::int64_t slice = word / kSlicePairs, lane = word % kSlicePairs;
    return slice * kSlice + lane / 2 % 2 * 16 + lane / 4 * 4 + lane % 2 * 2;
  }

 private:
  static HWY_INLINE ByteVec look_up_bytes(ByteVec places, const std::uint8_t* table) {
    ByteVec found;
    asm("vpermb %2, %1, %0"
        : "=v"(found.raw)
        : "v"(places.raw), "m"(*reinterpret_cast<const std::uint8_t(*)[64]>(table)));
    return found;
  }

  /// The largest scale of each four groups, as float32, and how often the others halve it.
  static HWY_INLINE void split_scales(const std::uint8_t* codes, std::int64_t num_groups,
                                      std::uint8_t* group_shifts, float* scales, std::int64_t scale_stride) {
    const hn::CappedTag<std::uint8_t, 16> d8;
    const hn::CappedTag<std::uint32_t, 4> d32;
    alignas(16) std::uint8_t all[kPanelSlices] = {};
    if (num_groups == kPanelSlices) {
      std::memcpy(all, codes, sizeof(all));
    } else {
      std::memcpy(all, codes, static_cast<std::size_t>(num_groups));
    }
    const auto code = hn::Load(d8, all);
    const auto rotated = [&](auto v, auto bits) HWY_ATTR {
      return hn::BitCast(d8, hn::RotateRight<decltype(bits)::value>(hn::BitCast(d32, v)));
    };
    const auto pairs = hn::Max(code, rotated(code, std::integral_constant<int, 16>()));
    const auto largest = hn::Max(pairs, rotated(pairs, std::integral_constant<int, 8>()));
    const auto vanished = hn::Set(d8, static_cast<std::uint8_t>(kLargestScaleShift + 1));
    hn::Store(hn::Min(hn::Sub(largest, code), vanished), d8, group_shifts);
    // Code 0 is 2^-127, whose float32 bits are 0x00400000.
    const auto bits = hn::ShiftLeft<23>(hn::ShiftRight<24>(hn::BitCast(d32, largest)));
    alignas(16) std::uint32_t of_blocks[kPanelBlocks];
    hn::Store(hn::Max(bits, hn::Set(d32, 0x00400000u)), d32, of_blocks);
    for (std::int64_t block = 0; block < kPanelBlocks; ++block) {
      std::memcpy(scales + block * scale_stride, of_blocks + block, sizeof(float));
    }
  }

  const std::uint8_t* tables_;
};

/// Blocks have scales of 1: those of groups enter the values.
template <>
class AmxWeights<WeightFormat::kNvfp4> {
 public:
  HWY_INLINE AmxWeights() {}
  HWY_INLINE void Unpack(const RowCursor& row, std::int64_t k, std::int64_t count, std::uint16_t* values,
                         float* scales, std::int64_t scale_stride) const {
    const Unpacker unpacker = unpacker_;  // in registers: stores might change the member
    for (std::int64_t block = 0; block < count; block += kActivationGroup) {
      WordVec pairs[Unpacker::kVectors];
      unpacker.Unpack(row, k + block, pairs);
      for (std::int64_t v = 0; v < Unpacker::kVectors; ++v)
        hn::Store(pairs[v], WordTag(), reinterpret_cast<std::uint32_t*>(values + block + v * kSlice));
    }
    for (std::int64_t block = 0; block < kPanelBlocks; ++block) scales[block * scale_stride] = 1.0F;
  }
  static constexpr std::int64_t input_of(std::int64_t word) {
    return Unpacker::input_of(word / kSlicePairs, word % kSlicePairs);
  }

 private:
  using Unpacker = Bf16Unpacker<WeightFormat::kNvfp4>;
  Unpacker unpacker_;
};

}  // namespace baleen::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // HWY_TARGET == HWY_AVX3

#endif  // BALEEN_OPS_MATMUL_AMX_WEIGHTS_INL_H_
