// Activations of 8 bits as kernels read them, weights as unsigned bytes, and the instructions that multiply
// the two. Included once per instruction set (Highway). What the parts mean: int8_products-inl.h.

#if defined(BALEEN_OPS_MATMUL_INT8_BLOCK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BALEEN_OPS_MATMUL_INT8_BLOCK_INL_H_
#undef BALEEN_OPS_MATMUL_INT8_BLOCK_INL_H_
#else
#define BALEEN_OPS_MATMUL_INT8_BLOCK_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>
#include <cstring>

#if HWY_ARCH_ARM_A64
#include <sys/auxv.h>
#endif

#include "numeric/int8_group.h"
#include "ops/matmul/group_sums-inl.h"

HWY_BEFORE_NAMESPACE();
namespace baleen::HWY_NAMESPACE {

/// A block of activations, in the room of 128 float32 values. Codes lie as `int8_place` has it. What the
/// weights' offset adds, negated: `offsets` of each pair of even inputs together with the odd ones after them
/// (four consecutive inputs), `word_offsets` their sums over a group's even and odd ones, `offset_sums` those
/// of all.
struct Int8Block {
  std::int8_t codes[kActivationGroup];
  std::int16_t offsets[kActivationGroup / 4];
  std::int16_t word_offsets[kActivationGroup / kGroup][2];  ///< only where they fit: kGroupFits16Bits
  std::int32_t offset_sums[kActivationGroup / kGroup];
  float scales[kActivationGroup / kGroup];  ///< for a group's integer sum; NaN if an input is not finite
  std::int32_t unused[68];
};
static_assert(sizeof(Int8Block) == kActivationGroup * sizeof(float));
static_assert(kGroup == kInt8Group);

/// `offset`, `unit`: of the weights.
HWY_INLINE void pack_int8_block(const float* x, int offset, float unit, float* packed) {
  const FloatTag d;
  const hn::Rebind<std::int8_t, FloatTag> narrow;
  const hn::CappedTag<std::int8_t, 16> half_group;
  auto* block = reinterpret_cast<Int8Block*>(packed);
  for (std::int64_t group = 0; group < kActivationGroup / kGroup; ++group) {
    const float* values = x + group * kGroup;
    const float largest = absolute_maximum_simd(d, values, kGroup);
    const bool counts = largest >= kSmallestInt8Activation;
    const auto factor = hn::Set(d, counts ? kLargestInt8Activation / largest : 0.0F);
    auto poison = hn::Zero(d);  // NaN in a lane that has met NaN or infinity
    alignas(64) std::int8_t codes[kGroup];
    for (std::int64_t i = 0; i < kGroup; i += kLanes) {
      const auto v = hn::LoadU(d, values + i);
      poison = hn::Add(poison, hn::Mul(v, hn::Zero(d)));
      hn::Store(hn::DemoteTo(narrow, hn::NearestInt(hn::Mul(v, factor))), narrow, codes + i);
    }
    block->scales[group] =
        (counts ? largest / kLargestInt8Activation * unit : 0.0F) + hn::GetLane(hn::SumOfLanes(d, poison));
    hn::Vec<decltype(half_group)> even, odd;
    hn::LoadInterleaved2(half_group, codes, even, odd);
    hn::StoreU(even, half_group, block->codes + group * (kGroup / 2));
    hn::StoreU(odd, half_group, block->codes + kActivationGroup / 2 + group * (kGroup / 2));
    std::int32_t sums[2] = {};
    for (std::int64_t i = 0; i < kGroup / 4; ++i) {
      const std::int8_t* four = codes + 4 * i;
      const int sum = -offset * (four[0] + four[1] + four[2] + four[3]);
      block->offsets[group * (kGroup / 4) + i] = static_cast<std::int16_t>(sum);
      sums[i % 2] += sum;
    }
    block->word_offsets[group][0] = static_cast<std::int16_t>(sums[0]);
    block->word_offsets[group][1] = static_cast<std::int16_t>(sums[1]);
    block->offset_sums[group] = sums[0] + sums[1];
  }
}

/// Weights of a load: bytes of its even and odd inputs, each its integer in units of kUnit plus kOffset.
template <WeightFormat kFormat>
struct UnsignedWeights;

template <>
struct UnsignedWeights<WeightFormat::kFp4> {
  static constexpr float kUnit = 0.5F;
  static constexpr int kOffset = 16;
  static constexpr int kLargest = 12;
  static constexpr bool kGroupFits16Bits = true;
  static constexpr std::int64_t place(std::int64_t k) { return k / 2; }

  HWY_INLINE UnsignedWeights(const RowCursor& row, std::int64_t k)
      : UnsignedWeights(hn::LoadU(ByteTag(), row.codes + place(k))) {}
  /// Doubled values of codes.
  HWY_INLINE explicit UnsignedWeights(ByteVec codes) {
    const ByteTag d;
    const hn::Repartition<std::uint16_t, FloatTag> d16;
    alignas(16) static constexpr std::uint8_t kDoubled[16] = {16, 17, 18, 19, 20, 22, 24, 28,
                                                              16, 15, 14, 13, 12, 10, 8,  4};
    const auto table = hn::LoadDup128(d, kDoubled);
    const auto nibble = hn::Set(d, std::uint8_t{15});
    const auto upper = hn::BitCast(d, hn::ShiftRight<4>(hn::BitCast(d16, codes)));
    half[0] = hn::TableLookupBytes(table, hn::And(codes, nibble));
    half[1] = hn::TableLookupBytes(table, hn::And(upper, nibble));
  }
  ByteVec half[2];
};

template <>
struct UnsignedWeights<WeightFormat::kInt8> {
  static constexpr float kUnit = 1.0F;
  static constexpr int kOffset = kInt8Offset;
  static constexpr int kLargest = kLargestInt8Weight;
  static constexpr bool kGroupFits16Bits = false;
  static constexpr std::int64_t place(std::int64_t k) { return int8_place(k); }

  HWY_INLINE UnsignedWeights(const RowCursor& row, std::int64_t k) {
    half[0] = hn::LoadU(ByteTag(), row.codes + place(k));
    half[1] = hn::LoadU(ByteTag(), row.codes + place(k + 1));
  }
  ByteVec half[2];
};

// Sums in 16 bits: of two neighbours in one instruction, which saturates; of four with their offset; of half
// a group with its own.
template <WeightFormat kFormat>
constexpr bool kSumsFit =
    2 * (UnsignedWeights<kFormat>::kOffset + UnsignedWeights<kFormat>::kLargest) * kLargestInt8Activation <=
        0x7FFF &&
    4 * UnsignedWeights<kFormat>::kLargest* kLargestInt8Activation <= 0x7FFF &&
    4 * UnsignedWeights<kFormat>::kOffset* kLargestInt8Activation <= 0x7FFF &&
    (!UnsignedWeights<kFormat>::kGroupFits16Bits ||
     16 * UnsignedWeights<kFormat>::kOffset * kLargestInt8Activation <= 0x7FFF);
static_assert(kSumsFit<WeightFormat::kFp4> && kSumsFit<WeightFormat::kInt8>);

/// Whether this machine multiplies bytes and adds four neighbours in one instruction: AVX-512 VNNI, AVX-VNNI,
/// or Arm's dot products.
HWY_INLINE bool has_byte_dots() {
#if HWY_TARGET == HWY_AVX3
  return __builtin_cpu_supports("avx512vnni") != 0;
#elif HWY_TARGET == HWY_AVX2
  return __builtin_cpu_supports("avxvnni") != 0;
#elif HWY_ARCH_ARM_A64
  static const bool kHas = (::getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
  return kHas;
#else
  return false;
#endif
}

HWY_INLINE Int32Vec add_neighbours(Int16Vec sums) {
#if HWY_ARCH_X86
  return multiply_pairs(sums, hn::Set(Int16Tag(), std::int16_t{1}));
#else  // where `multiply_pairs` may add others than neighbours
  const auto pairs = hn::BitCast(Int32Tag(), sums);
  return hn::Add(hn::ShiftRight<16>(hn::ShiftLeft<16>(pairs)), hn::ShiftRight<16>(pairs));
#endif
}

/// sum + products of four neighbours. (Written out for the reason that `add_pairs` has. Unsigned bytes are at
/// most 127 and may count as signed ones.)
HWY_INLINE Int32Vec add_byte_dots(Int32Vec sum, ByteVec unsigned_bytes, ByteVec signed_bytes) {
#if HWY_TARGET == HWY_AVX3
  asm("vpdpbusd %2, %1, %0" : "+v"(sum.raw) : "v"(unsigned_bytes.raw), "v"(signed_bytes.raw));
  return sum;
#elif HWY_TARGET == HWY_AVX2
  asm("%{vex%} vpdpbusd %2, %1, %0" : "+x"(sum.raw) : "x"(unsigned_bytes.raw), "x"(signed_bytes.raw));
  return sum;
#elif HWY_ARCH_ARM_A64
  asm(".arch armv8.2-a+dotprod\n\tsdot %0.4s, %1.16b, %2.16b"
      : "+w"(sum.raw)
      : "w"(unsigned_bytes.raw), "w"(signed_bytes.raw));
  return sum;
#else
  return hn::Add(sum, add_neighbours(multiply_bytes(unsigned_bytes, signed_bytes)));
#endif
}

/// Sums over four even and four odd inputs, which begin with `offsets`.
template <bool kByteDots>
HWY_INLINE Int32Vec sums_of_quads(Int16Vec offsets, ByteVec even_weights, ByteVec even, ByteVec odd_weights,
                                  ByteVec odd) {
  if constexpr (kByteDots) {
    return add_byte_dots(add_byte_dots(add_neighbours(offsets), even_weights, even), odd_weights, odd);
  } else {
    const auto sum = hn::Add(offsets, multiply_bytes(even_weights, even));
    return add_neighbours(hn::Add(sum, multiply_bytes(odd_weights, odd)));
  }
}

HWY_INLINE ByteVec broadcast_quad(const std::int8_t* four) {
  std::int32_t word;
  std::memcpy(&word, four, sizeof(word));
  return hn::BitCast(ByteTag(), hn::Set(Int32Tag(), word));
}
HWY_INLINE Int16Vec broadcast_pair(const std::int16_t* two) {
  std::int32_t word;
  std::memcpy(&word, two, sizeof(word));
  return hn::BitCast(Int16Tag(), hn::Set(Int32Tag(), word));
}

}  // namespace baleen::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // BALEEN_OPS_MATMUL_INT8_BLOCK_INL_H_
