// What products share whose groups of 32 inputs have exact integer sums and a scale each: how those sums find
// their accumulators, and panels with a column a lane. Included once per instruction set (Highway).

#if defined(BALEEN_OPS_MATMUL_GROUP_SUMS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BALEEN_OPS_MATMUL_GROUP_SUMS_INL_H_
#undef BALEEN_OPS_MATMUL_GROUP_SUMS_INL_H_
#else
#define BALEEN_OPS_MATMUL_GROUP_SUMS_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "numeric/rounding-inl.h"
#include "ops/matmul/matmul.h"
#include "ops/matmul/tile_output-inl.h"
#include "ops/matmul/tile_rows-inl.h"
#include "ops/matmul/unpack-inl.h"

HWY_BEFORE_NAMESPACE();
namespace baleen::HWY_NAMESPACE {

using Int32Tag = hn::RebindToSigned<FloatTag>;
using Int16Tag = hn::Repartition<std::int16_t, FloatTag>;
using Int32Vec = hn::Vec<Int32Tag>;
using Int16Vec = hn::Vec<Int16Tag>;

constexpr std::int64_t kGroup = 32;
/// Inputs whose weights fill a vector; groups among them, one in each 128 bits.
constexpr std::int64_t kInputsPerLoad = 8 * kLanes;
constexpr std::int64_t kGroupsPerLoad = kLanes / 4;
/// Four loads have as many groups as a vector has lanes.
constexpr std::int64_t kLoadsTogether = 4;
constexpr std::int64_t kInputsTogether = kLoadsTogether * kInputsPerLoad;
/// Of the kLanes groups of four loads: group q of load l belongs to accumulator 4 q + l.
constexpr std::int64_t accumulator_of(std::int64_t group) {
  return 4 * (group % kGroupsPerLoad) + group / kGroupsPerLoad;
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

/// Products of unsigned and signed bytes, neighbours added: sums that fit 16 bits. Elsewhere than
/// on x86 unsigned bytes are at most 127.
HWY_INLINE Int16Vec multiply_bytes(ByteVec unsigned_bytes, ByteVec signed_bytes) {
#if HWY_TARGET == HWY_AVX3
  return Int16Vec{_mm512_maddubs_epi16(unsigned_bytes.raw, signed_bytes.raw)};
#elif HWY_TARGET == HWY_AVX2
  return Int16Vec{_mm256_maddubs_epi16(unsigned_bytes.raw, signed_bytes.raw)};
#elif HWY_TARGET == HWY_SSE4
  return Int16Vec{_mm_maddubs_epi16(unsigned_bytes.raw, signed_bytes.raw)};
#else
  const Int16Tag d;
  const auto u = hn::BitCast(d, unsigned_bytes), w = hn::BitCast(d, signed_bytes);
  const auto even =
      hn::Mul(hn::And(u, hn::Set(d, std::int16_t{0xFF})), hn::ShiftRight<8>(hn::ShiftLeft<8>(w)));
  return hn::Add(even, hn::Mul(hn::ShiftRight<8>(u), hn::ShiftRight<8>(w)));
#endif
}

/// Sums of the groups of four loads, in the lanes of their accumulators.
HWY_INLINE Int32Vec sums_of_groups(const Int32Vec (&loads)[kLoadsTogether]) {
  const Int32Tag d;
  const hn::RepartitionToWide<Int32Tag> pairs;
  const auto ab = hn::BitCast(
      pairs, hn::Add(hn::InterleaveLower(d, loads[0], loads[1]), hn::InterleaveUpper(d, loads[0], loads[1])));
  const auto ce = hn::BitCast(
      pairs, hn::Add(hn::InterleaveLower(d, loads[2], loads[3]), hn::InterleaveUpper(d, loads[2], loads[3])));
  return hn::Add(hn::BitCast(d, hn::InterleaveLower(pairs, ab, ce)),
                 hn::BitCast(d, hn::InterleaveUpper(pairs, ab, ce)));
}

/// In each lane, in the top byte, which group's sum it adds up; 0x80 in the others, for which a look-up has
/// zero.
struct GroupOfLane {
  constexpr GroupOfLane() {
    for (std::uint32_t group = 0; group < kLanes; ++group) {
      pattern[accumulator_of(group)] = group << 24 | 0x00808080u;
    }
  }
  alignas(64) std::uint32_t pattern[kLanes] = {};
};

/// Scales of the groups of four loads, or of `count` that are left, in the lanes of their accumulators. Code
/// 0 is 2^-127.
template <bool kWhole>
HWY_INLINE FloatVec scales_of_groups(const std::uint8_t* codes, std::int64_t count) {
  const WordTag du;
  const ByteTag db;
  static constexpr GroupOfLane kGroupOfLane;
  ByteVec all;
  if constexpr (!kWhole || kLanes > 8) {
    alignas(16) std::uint8_t copy[16] = {};
    std::memcpy(copy, codes, kWhole ? sizeof(copy) : static_cast<std::size_t>(count));
    all = hn::LoadDup128(db, copy);
  } else {
    using Codes = std::conditional_t<kLanes == 8, std::uint64_t, std::uint32_t>;
    Codes copy;
    std::memcpy(&copy, codes, sizeof(copy));
    all = hn::BitCast(db, hn::Set(hn::Repartition<Codes, FloatTag>(), copy));
  }
  const auto pattern = hn::BitCast(db, hn::Load(du, kGroupOfLane.pattern));
  const auto code = hn::BitCast(du, hn::TableLookupBytesOr0(all, pattern));
  return hn::BitCast(FloatTag(), hn::Max(hn::ShiftRight<1>(code), hn::Set(du, 0x00400000u)));
}

/// `scales` of the groups of `num_blocks` blocks, or of as many as a vector has, in ascending order; zeros
/// behind them.
template <bool kWhole, class D, class Block>
HWY_INLINE hn::Vec<D> scales_in_order(D d, const Block* blocks, std::int64_t num_blocks) {
  if constexpr (hn::MaxLanes(D()) <= 4) {
    return kWhole || num_blocks > 0 ? hn::LoadU(d, blocks->scales) : hn::Zero(d);
  } else {
    constexpr std::int64_t kHalf = static_cast<std::int64_t>(hn::MaxLanes(D())) / 2 / 4;
    const hn::Half<D> half;
    return hn::Combine(d, scales_in_order<kWhole>(half, blocks + kHalf, num_blocks - kHalf),
                       scales_in_order<kWhole>(half, blocks, num_blocks));
  }
}

/// Which group's scale a lane has: that whose sum it adds up.
struct GroupInLane {
  constexpr GroupInLane() {
    for (std::int32_t group = 0; group < kLanes; ++group) groups[accumulator_of(group)] = group;
  }
  alignas(64) std::int32_t groups[kLanes] = {};
};

/// Scales of the activations of four loads, or of the `num_blocks` blocks that are left, in the lanes of
/// their accumulators.
template <bool kWhole, class Block>
HWY_INLINE FloatVec activation_scales(const Block* blocks, std::int64_t num_blocks) {
  static constexpr GroupInLane kGroupInLane;
  const FloatTag d;
  const auto ascending = scales_in_order<kWhole>(d, blocks, num_blocks);
  return hn::TableLookupLanes(ascending, hn::SetTableIndices(d, kGroupInLane.groups));
}

/// Adds the sums of groups to their accumulators.
HWY_INLINE FloatVec add_groups(Int32Vec sums, FloatVec block_scale, FloatVec group_scale, FloatVec to) {
  return hn::MulAdd(hn::Mul(hn::ConvertTo(FloatTag(), sums), block_scale), group_scale, to);
}

/// Panels of 16 columns, a column a lane, and their accumulators in memory: kLanes vectors a column, as
/// `accumulator_of` says.
struct GroupSums {
  static constexpr int kPanelColumns = 16;
  static constexpr int kVectors = static_cast<int>(kPanelColumns / kLanes);
  /// 4 x 2 sums and their operands fill the sixteen registers of AVX2.
  static constexpr int kRows = 8 / kVectors;
  static constexpr std::int64_t kRowSums = kLanes * kPanelColumns;

  static HWY_INLINE void store_row(const MatmulTile& tile, std::int64_t m, std::int64_t n,
                                   const float* sums) {
    const FloatTag d;
    for (std::int64_t c = 0; c < kPanelColumns && n + c < tile.n_end; c += kLanes) {
      FloatVec blocks[kGroupsPerLoad];
      for (std::int64_t q = 0; q < kGroupsPerLoad; ++q) {
        const float* of_block = sums + 4 * q * kPanelColumns + c;
        blocks[q] = hn::Add(
            hn::Add(hn::Load(d, of_block), hn::Load(d, of_block + 2 * kPanelColumns)),
            hn::Add(hn::Load(d, of_block + kPanelColumns), hn::Load(d, of_block + 3 * kPanelColumns)));
      }
      for (std::int64_t half = kGroupsPerLoad / 2; half > 0; half /= 2) {
        for (std::int64_t q = 0; q < half; ++q) blocks[q] = hn::Add(blocks[q], blocks[q + half]);
      }
      auto sum = blocks[0];
      if (tile.round_bf16) sum = round_bf16_simd(d, sum);
      float* y = tile.y + m * tile.y_stride + n + c;
      if (const std::int64_t num_columns = tile.n_end - n - c; num_columns >= kLanes) {
        hn::StoreU(sum, d, y);
      } else {
        alignas(64) float outputs[kLanes];
        hn::Store(sum, d, outputs);
        std::copy_n(outputs, num_columns, y);
      }
    }
  }

  /// Outputs n of few rows, before lanes are added up: `Products::add_loads` of four loads at a time, and of
  /// what is left. Each weight is unpacked once, in registers.
  template <class Products, WeightFormat kFormat, int kFewRows>
  static HWY_INLINE void sum_column(const MatmulTile& tile, const float* const (&packed)[kFewRows],
                                    std::int64_t n, FloatVec (&results)[kFewRows]) {
    const RowCursor row = cursor_of<kFormat>(*tile.weight, n);
    const std::int64_t num_inputs = tile.weight->cols;
    FloatVec sums[kFewRows];
    for (int m = 0; m < kFewRows; ++m) sums[m] = hn::Zero(FloatTag());
    std::int64_t k = 0;
    for (; k + kInputsTogether <= num_inputs; k += kInputsTogether) {
      Products::template add_loads<true, kFewRows>(row, packed, k, kInputsTogether, sums);
    }
    if (k < num_inputs) Products::template add_loads<false, kFewRows>(row, packed, k, num_inputs - k, sums);
    for (int m = 0; m < kFewRows; ++m) results[m] = sums[m];
  }

 protected:
  /// The 16 bytes that rows[4 b] has at `at`, as block b.
  template <class D>
  static HWY_INLINE hn::Vec<D> load_blocks(D d, const RowCursor* rows, std::int64_t at) {
    if constexpr (hn::MaxLanes(D()) <= 16) {
      return hn::LoadU(d, rows->codes + at);
    } else {
      const hn::Half<D> half;
      const RowCursor* upper = rows + hn::MaxLanes(D()) / 2 / 16 * 4;
      return hn::Combine(d, load_blocks(half, upper, at), load_blocks(half, rows, at));
    }
  }

  /// Word i of the 16 bytes that kLanes weight rows have at `at`, lane c from row c.
  static HWY_INLINE void turn_rows(const RowCursor* rows, std::int64_t at, ByteVec (&turned)[4]) {
    const WordTag d;
    const hn::RepartitionToWide<WordTag> pairs;
    const ByteTag d8;
    const auto a = hn::BitCast(d, load_blocks(d8, rows, at));
    const auto b = hn::BitCast(d, load_blocks(d8, rows + 1, at));
    const auto c = hn::BitCast(d, load_blocks(d8, rows + 2, at));
    const auto e = hn::BitCast(d, load_blocks(d8, rows + 3, at));
    const auto ab_lower = hn::BitCast(pairs, hn::InterleaveLower(d, a, b));
    const auto ab_upper = hn::BitCast(pairs, hn::InterleaveUpper(d, a, b));
    const auto ce_lower = hn::BitCast(pairs, hn::InterleaveLower(d, c, e));
    const auto ce_upper = hn::BitCast(pairs, hn::InterleaveUpper(d, c, e));
    turned[0] = hn::BitCast(d8, hn::InterleaveLower(pairs, ab_lower, ce_lower));
    turned[1] = hn::BitCast(d8, hn::InterleaveUpper(pairs, ab_lower, ce_lower));
    turned[2] = hn::BitCast(d8, hn::InterleaveLower(pairs, ab_upper, ce_upper));
    turned[3] = hn::BitCast(d8, hn::InterleaveUpper(pairs, ab_upper, ce_upper));
  }

  /// Scales of the four groups of a block. Code 0 is 2^-127.
  static HWY_INLINE void fill_scales(const RowCursor* rows, std::int64_t k, float (*to)[kPanelColumns]) {
    const WordTag d;
    constexpr std::int64_t kGroups = kActivationGroup / kGroup;
    alignas(64) std::uint32_t codes[kPanelColumns];
    static_assert(kGroups == sizeof(codes[0]));
    for (std::int64_t c = 0; c < kPanelColumns; ++c) {
      std::memcpy(&codes[c], rows[c].group_scales + k / kGroup, sizeof(codes[c]));
    }
    for (std::int64_t c = 0; c < kPanelColumns; c += kLanes) {
      auto four = hn::Load(d, codes + c);
      for (std::int64_t i = 0; i < kGroups; ++i, four = hn::ShiftRight<8>(four)) {
        const auto exponent = hn::ShiftLeft<23>(hn::And(four, hn::Set(d, 0xFFu)));
        const auto scale = hn::Max(exponent, hn::Set(d, 0x00400000u));
        hn::Store(hn::BitCast(FloatTag(), scale), FloatTag(), to[i] + c);
      }
    }
  }

  /// Accumulators of rows of a range that begins as zero, of which so many groups begin one each: returns how
  /// many. Of fewer inputs than that some accumulators stay zero, and none begins.
  template <int kTileRows>
  static HWY_INLINE std::int64_t begin_sums(const PanelRange& range, float* sums) {
    if (range.begin > 0) return 0;
    if (range.num_inputs() / kGroup >= kLanes) return kLanes;
    const FloatVec zero = in_register(hn::Zero(FloatTag()));  // GCC else makes it the slower `rep stos`
    for (std::int64_t i = 0; i < kTileRows * kRowSums; i += kLanes) hn::Store(zero, FloatTag(), sums + i);
    return 0;
  }
};

}  // namespace baleen::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // BALEEN_OPS_MATMUL_GROUP_SUMS_INL_H_
