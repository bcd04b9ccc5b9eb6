// FP4 weights times FP8 activations on integers. Included once per instruction set (Highway).
//
// A doubled e2m1 value is an integer of at most 12, an e4m3 value times 2^9 one of at most 448 * 512 < 2^18.
// It is cut into 8 high + low with high in 16 bits and low in 0..7; most blocks of 128 have no low parts and
// skip their products. Weights become 16-bit words, their value in the upper byte, so that one instruction
// multiplies 16 pairs and adds neighbours (AVX2). A lane's sum over its 8 inputs of a group of 32 is at most
// 32 * 8 * 12 * 448 * 512 < 2^30: exact in 32 bits.
//
// The order of an output's sum, the same for every number of rows: lane l of a load has inputs 8 l to 8 l + 7
// of the load's 8 kLanes; its exact integer, as float32, times the activations' scale (a power of two,
// exact), enters the lane's accumulator by one multiply-add with the group's scale, in ascending k. Then the
// lanes are added.

#if defined(BALEEN_OPS_MATMUL_INTEGER_FP4_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BALEEN_OPS_MATMUL_INTEGER_FP4_INL_H_
#undef BALEEN_OPS_MATMUL_INTEGER_FP4_INL_H_
#else
#define BALEEN_OPS_MATMUL_INTEGER_FP4_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "ops/matmul/tile_output-inl.h"
#include "ops/matmul/tile_rows-inl.h"
#include "ops/matmul/unpack-inl.h"

HWY_BEFORE_NAMESPACE();
namespace baleen::HWY_NAMESPACE {

using Int32Tag = hn::RebindToSigned<FloatTag>;
using Int16Tag = hn::Repartition<std::int16_t, FloatTag>;
using ByteTag = hn::Repartition<std::uint8_t, FloatTag>;
using Int32Vec = hn::Vec<Int32Tag>;
using Int16Vec = hn::Vec<Int16Tag>;
using ByteVec = hn::Vec<ByteTag>;

/// Whether this instruction set does such products on integers.
constexpr bool kIntegerFp4 = HWY_ARCH_X86;

/// Inputs whose weights fill a vector, and such loads in a block of activations.
constexpr std::int64_t kInputsPerLoad = 8 * kLanes;
constexpr std::int64_t kLoadsPerBlock = kActivationBlock / kInputsPerLoad;
/// 16-bit vectors that a load becomes.
constexpr int kWordVectors = 4;

/// A block of activations as the kernel reads it, in the room of 128 float32 values. Word i of vector v of a
/// load has input 4 i + v of the load, byte j of its vector h of low parts input 2 j + h.
struct IntegerBlock {
  std::int16_t high[kActivationBlock];
  std::uint8_t low[kActivationBlock];
  float scale;           ///< of a lane's integer sum: 2^-15 times the block's; NaN if an input is NaN
  std::int32_t has_low;  ///< 0: every low part is 0
  std::int32_t unused[30];
};
static_assert(sizeof(IntegerBlock) == kActivationBlock * sizeof(float));

/// A doubled weight has its value in the upper byte of a word, activations are counted in 2^-9, of which high
/// has eights and low is multiplied by 32.
constexpr float kUnitOfSum = 0x1p-15F;
constexpr std::int16_t kLowFactor = 32;

HWY_INLINE void pack_integer_block(const float* x, float* packed) {
  const FloatTag d;
  const Int32Tag di;
  const WordTag du;
  const ByteTag d8;
  const hn::Rebind<std::int16_t, FloatTag> narrow16;
  const hn::Rebind<std::uint8_t, FloatTag> narrow8;
  const float scale = e8m0_to_float(fp8_scale_code(absolute_maximum_simd(d, x, kActivationBlock)));
  const auto divide = hn::Set(d, 1.0F / scale);
  alignas(64) std::int16_t high[kActivationBlock];
  alignas(64) std::uint8_t low[kActivationBlock];
  auto all_bits = hn::Zero(di);
  auto poison = hn::Zero(d);  // NaN in a lane that has met NaN
  for (std::int64_t i = 0; i < kActivationBlock; i += kLanes) {
    const auto rounded = round_e4m3(d, hn::Mul(hn::LoadU(d, x + i), divide));
    poison = hn::Add(poison, hn::Mul(rounded, hn::Zero(d)));
    const auto value = hn::ConvertTo(di, hn::Mul(rounded, hn::Set(d, 512.0F)));
    all_bits = hn::Or(all_bits, value);
    hn::Store(hn::DemoteTo(narrow16, hn::ShiftRight<3>(value)), narrow16, high + i);
    hn::Store(hn::DemoteTo(narrow8, hn::And(value, hn::Set(di, 7))), narrow8, low + i);
  }
  auto* block = reinterpret_cast<IntegerBlock*>(packed);
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
  block->has_low = hn::AllTrue(di, hn::Eq(hn::And(all_bits, hn::Set(di, 7)), hn::Zero(di))) ? 0 : 1;
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

/// Products of unsigned low parts and signed bytes, neighbours added; at most 2 * 7 * 12.
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
  HWY_INLINE WeightBytes() {}
  ByteVec half[2];
  HWY_INLINE void Load(const std::uint8_t* codes) {
    const ByteTag d;
    const hn::Repartition<std::uint16_t, FloatTag> d16;
    alignas(16) static constexpr std::int8_t kDoubled[16] = {0, 1,  2,  3,  4,  6,  8,  12,
                                                             0, -1, -2, -3, -4, -6, -8, -12};
    const auto table = hn::LoadDup128(d, reinterpret_cast<const std::uint8_t*>(kDoubled));
    const auto nibble = hn::Set(d, std::uint8_t{15});
    const auto both = hn::LoadU(d, codes);
    const auto upper = hn::BitCast(d, hn::ShiftRight<4>(hn::BitCast(d16, both)));
    half[0] = hn::TableLookupBytes(table, hn::And(both, nibble));
    half[1] = hn::TableLookupBytes(table, hn::And(upper, nibble));
  }
  /// 256 times the doubled values of inputs 4 i + v.
  template <int v>
  HWY_INLINE Int16Vec Words() const {
    const Int16Tag d;
    const auto bytes = hn::BitCast(d, half[v % 2]);
    return v < 2 ? hn::ShiftLeft<8>(bytes) : hn::And(bytes, hn::Set(d, static_cast<std::int16_t>(0xFF00)));
  }
};

/// Scales of the groups of a block, as vectors that fit the sums of its loads: four lanes a group. Code 0 is
/// 2^-127.
HWY_INLINE void block_group_scales(const std::uint8_t* codes, FloatVec (&scales)[kLoadsPerBlock]) {
  const FloatTag d;
  const WordTag du;
  const ByteTag db;
  std::uint32_t four;
  static_assert(kActivationBlock / 32 == sizeof(four));
  std::memcpy(&four, codes, sizeof(four));
  const auto all = hn::BitCast(db, hn::Set(du, four));
  for (std::int64_t load = 0; load < kLoadsPerBlock; ++load) {
    // A lane takes its group's code into its top byte and zeros below.
    const auto group = hn::Add(hn::ShiftRight<2>(hn::Iota(du, 0)),
                               hn::Set(du, static_cast<std::uint32_t>(load * (kLanes / 4))));
    const auto pattern = hn::Or(hn::ShiftLeft<24>(group), hn::Set(du, 0x00808080u));
    const auto code = hn::BitCast(du, hn::TableLookupBytesOr0(all, hn::BitCast(db, pattern)));
    scales[load] = hn::BitCast(d, hn::Max(hn::ShiftRight<1>(code), hn::Set(du, 0x00400000u)));
  }
}

/// Adds the sum of a load's products to a row's accumulator.
HWY_INLINE FloatVec add_load(Int32Vec products, float scale, FloatVec group_scale, FloatVec sum) {
  const FloatTag d;
  return hn::MulAdd(hn::Mul(hn::ConvertTo(d, products), hn::Set(d, scale)), group_scale, sum);
}

/// FP4 times FP8 on integers.
struct IntegerFp4Products {
  static void pack_row(const float* x, std::int64_t num_inputs, ActivationRounding /*kFp8*/, float* packed) {
    for (std::int64_t k = 0; k < num_inputs; k += kActivationBlock) pack_integer_block(x + k, packed + k);
  }

  /// Each weight is unpacked once, in registers.
  template <int kFewRows>
  static HWY_INLINE void multiply_column(const MatmulTile& tile, const float* const (&packed)[kFewRows],
                                         std::int64_t n, FloatVec (&results)[kFewRows]) {
    const Int16Tag d16;
    const IntegerBlock* x[kFewRows];
    for (int m = 0; m < kFewRows; ++m) x[m] = reinterpret_cast<const IntegerBlock*>(packed[m]);
    const ByteTag d8;
    const RowCursor row = cursor_of<WeightFormat::kFp4>(*tile.weight, n);
    FloatVec sums[kFewRows];  // added up in `results` they would wait for stores: 18 cycles a block, not 15
    for (int m = 0; m < kFewRows; ++m) sums[m] = hn::Zero(FloatTag());
    const std::int64_t num_blocks = tile.weight->cols / kActivationBlock;
    for (std::int64_t block = 0; block < num_blocks; ++block) {
      const std::uint8_t* codes = row.codes + block * (kActivationBlock / 2);
      FloatVec scales[kLoadsPerBlock];
      block_group_scales(row.group_scales + block * 4, scales);
      for (std::int64_t load = 0; load < kLoadsPerBlock; ++load) {
        WeightBytes weights;
        weights.Load(codes + load * 4 * kLanes);
        const Int16Vec words[kWordVectors] = {weights.Words<0>(), weights.Words<1>(), weights.Words<2>(),
                                              weights.Words<3>()};
        for (int m = 0; m < kFewRows; ++m) {
          const IntegerBlock& xb = x[m][block];
          const std::int16_t* high = xb.high + load * kInputsPerLoad;
          Int32Vec products = multiply_pairs(hn::Load(d16, high), words[0]);
          for (int v = 1; v < kWordVectors; ++v) {
            products = hn::Add(products, multiply_pairs(hn::Load(d16, high + v * 2 * kLanes), words[v]));
          }
          if (HWY_UNLIKELY(xb.has_low != 0)) {
            const std::uint8_t* low = xb.low + load * kInputsPerLoad;
            const auto pairs = hn::Add(multiply_low(hn::Load(d8, low), weights.half[0]),
                                       multiply_low(hn::Load(d8, low + 4 * kLanes), weights.half[1]));
            products = hn::Add(products, multiply_pairs(pairs, hn::Set(d16, kLowFactor)));
          }
          sums[m] = add_load(products, xb.scale, scales[load], sums[m]);
        }
      }
    }
    for (int m = 0; m < kFewRows; ++m) results[m] = sums[m];
  }

  static constexpr int kRows = 4;

  struct Panel {
    alignas(64) std::int16_t words[kPanelColumns][kPanelInputs];
    alignas(64) std::uint8_t bytes[kPanelColumns][kPanelInputs];
    alignas(64) float scales[kPanelColumns][kPanelInputs / 8];
  };

  static HWY_INLINE void fill(const MatmulTile& tile, const PanelRange& range, Panel& panel) {
    for (std::int64_t c = 0; c < kPanelColumns; ++c) {
      const RowCursor row =
          cursor_of<WeightFormat::kFp4>(*tile.weight, std::min(range.n + c, tile.n_end - 1));
      for (std::int64_t k = range.begin; k < range.end; k += kActivationBlock) {
        FloatVec scales[kLoadsPerBlock];
        block_group_scales(row.group_scales + k / 32, scales);
        for (std::int64_t load = 0; load < kLoadsPerBlock; ++load) {
          const std::int64_t at = k + load * kInputsPerLoad, to = at - range.begin;
          WeightBytes weights;
          weights.Load(row.codes + at / 2);
          prefetch_next_panel(tile, row, at / 2);
          hn::Store(weights.half[0], ByteTag(), panel.bytes[c] + to);
          hn::Store(weights.half[1], ByteTag(), panel.bytes[c] + to + 4 * kLanes);
          hn::Store(weights.Words<0>(), Int16Tag(), panel.words[c] + to);
          hn::Store(weights.Words<1>(), Int16Tag(), panel.words[c] + to + 2 * kLanes);
          hn::Store(weights.Words<2>(), Int16Tag(), panel.words[c] + to + 4 * kLanes);
          hn::Store(weights.Words<3>(), Int16Tag(), panel.words[c] + to + 6 * kLanes);
          hn::Store(scales[load], FloatTag(), panel.scales[c] + to / 8);
        }
      }
    }
  }

  /// Two columns at a time: 4 x 2 sums and as many accumulators. (1 x 4: 95 against 118 GFLOP/s.)
  template <int kTileRows>
  static HWY_INLINE void multiply(const float* const (&packed)[kTileRows], std::int64_t num_inputs,
                                  const Panel& panel, FloatVec (&sums)[kTileRows][kPanelColumns]) {
    for (int c = 0; c < kPanelColumns; c += 2) {
      FloatVec pair[kTileRows][2];
      for (int m = 0; m < kTileRows; ++m) {
        for (int i = 0; i < 2; ++i) pair[m][i] = sums[m][c + i];
      }
      multiply_two<kTileRows>(packed, num_inputs, panel, c, pair);
      for (int m = 0; m < kTileRows; ++m) {
        for (int i = 0; i < 2; ++i) sums[m][c + i] = pair[m][i];
      }
    }
  }

 private:
  template <int kTileRows>
  static HWY_INLINE void multiply_two(const float* const (&packed)[kTileRows], std::int64_t num_inputs,
                                      const Panel& panel, int column, FloatVec (&sums)[kTileRows][2]) {
    const Int16Tag d16;
    const ByteTag d8;
    const IntegerBlock* x[kTileRows];
    for (int m = 0; m < kTileRows; ++m) x[m] = reinterpret_cast<const IntegerBlock*>(packed[m]);
    for (std::int64_t block = 0; block < num_inputs / kActivationBlock; ++block) {
      for (std::int64_t load = 0; load < kLoadsPerBlock; ++load) {
        const std::int64_t at = load * kInputsPerLoad, in_panel = block * kActivationBlock + at;
        Int32Vec products[kTileRows][2];
        for (std::int64_t v = 0; v < kWordVectors; ++v) {
          const std::int64_t word = v * 2 * kLanes;
          // The sums are chains: trees, which GCC would make of them, need more registers than there are.
          for (int i = 0; i < 2; ++i) {
            const Int16Vec weights = hn::Load(d16, panel.words[column + i] + in_panel + word);
            for (int m = 0; m < kTileRows; ++m) {
              const auto product = multiply_pairs(weights, hn::Load(d16, x[m][block].high + at + word));
              products[m][i] = v == 0 ? product : in_register(hn::Add(products[m][i], product));
            }
          }
        }
        for (int m = 0; m < kTileRows; ++m) {
          const IntegerBlock& xb = x[m][block];
          if (HWY_UNLIKELY(xb.has_low != 0)) {
            for (int i = 0; i < 2; ++i) {
              const std::uint8_t* weights = panel.bytes[column + i] + in_panel;
              const auto pairs = hn::Add(
                  multiply_low(hn::Load(d8, xb.low + at), hn::Load(d8, weights)),
                  multiply_low(hn::Load(d8, xb.low + at + 4 * kLanes), hn::Load(d8, weights + 4 * kLanes)));
              products[m][i] = hn::Add(products[m][i], multiply_pairs(pairs, hn::Set(d16, kLowFactor)));
            }
          }
          for (int i = 0; i < 2; ++i) {
            const FloatVec scale = hn::Load(FloatTag(), panel.scales[column + i] + in_panel / 8);
            sums[m][i] = add_load(products[m][i], xb.scale, scale, sums[m][i]);
          }
        }
      }
    }
  }
};

}  // namespace baleen::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // BALEEN_OPS_MATMUL_INTEGER_FP4_INL_H_
