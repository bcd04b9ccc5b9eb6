// FP4 weights times FP8 activations on integers. Included once per instruction set (Highway).
//
// A doubled e2m1 value is an integer of at most 12, an e4m3 value times 2^9 one of at most 448 * 512 < 2^18.
// It is cut into a high part of 16 bits and a low part of 3 or 4. Few inputs have low parts that are not 0,
// and only those are multiplied once more. Weights become 16-bit words, their value in the upper byte, so
// that one instruction multiplies 16 pairs and adds neighbours (AVX2). The sum of a group of 32, which has
// one scale, is exact in 32 bits, in whatever order: where to cut is chosen so that it fits.
//
// The order of an output's sum, the same for every number of rows: a group's exact integer, as float32, times
// the activations' scale (a power of two, exact), enters one of kLanes accumulators by one multiply-add with
// the group's scale, in ascending k. `accumulator_of` says which. Then the accumulators are added as lanes
// are (sums_of_four).
//
// Few rows: lanes are groups, of four loads of one weight row. Many rows: lanes are columns of a panel.

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
#include <type_traits>

#include "ops/matmul/group_sums-inl.h"
#include "ops/matmul/integer_block-inl.h"
#include "ops/matmul/tile_output-inl.h"
#include "ops/matmul/tile_rows-inl.h"
#include "ops/matmul/unpack-inl.h"

HWY_BEFORE_NAMESPACE();
namespace baleen::HWY_NAMESPACE {

/// Adds to each lane what the low parts of its eight inputs contribute.
HWY_INLINE Int32Vec add_low_products(Int32Vec products, const std::uint8_t* low, const WeightBytes& weights) {
  const ByteTag d8;
  const auto pairs = hn::Add(multiply_bytes(hn::Load(d8, low), weights.half[0]),
                             multiply_bytes(hn::Load(d8, low + 4 * kLanes), weights.half[1]));
  return hn::Add(products, multiply_pairs(pairs, hn::Set(Int16Tag(), kLowFactor)));
}

/// Scales of the activations of four loads, of blocks with one each, of which those past `num_blocks` are not
/// read.
HWY_INLINE FloatVec scales_of_blocks(const IntegerBlock* blocks, std::int64_t num_blocks) {
  const FloatTag d;
  const WordTag du;
  auto scales = hn::Set(d, blocks[0].scales[0]);
  const auto load_of_lane = hn::And(hn::Iota(du, 0), hn::Set(du, 3u));
  for (std::int64_t load = 1; load < kLoadsTogether; ++load) {
    const std::int64_t block = load * kInputsPerLoad / kActivationGroup;
    if (block == (load - 1) * kInputsPerLoad / kActivationGroup || block >= num_blocks) continue;
    const auto from_here = hn::Gt(load_of_lane, hn::Set(du, static_cast<std::uint32_t>(load - 1)));
    scales = hn::IfThenElse(hn::RebindMask(d, from_here), hn::Set(d, blocks[block].scales[0]), scales);
  }
  return scales;
}

/// FP4 times FP8 on integers, of activations with a scale per kScaled; the same ones with `kWordDots`, for
/// which the machine must have such dots.
template <bool kWordDots, int kScaled>
struct IntegerFp4Products : GroupSums {
  static void pack_row(const float* x, std::int64_t num_inputs, ActivationRounding /*rounding*/,
                       float* packed) {
    for (std::int64_t k = 0; k < num_inputs; k += kActivationGroup)
      pack_integer_block<kScaled>(x + k, packed + k);
  }

  template <int kFewRows>
  static HWY_INLINE void multiply_column(const MatmulTile& tile, const float* const (&packed)[kFewRows],
                                         std::int64_t n, FloatVec (&results)[kFewRows]) {
    sum_column<IntegerFp4Products, WeightFormat::kFp4, kFewRows>(tile, packed, n, results);
  }

  /// Columns side by side: lane c of `words[p]` has the words of column c for a pair of inputs. In a group,
  /// pair 4 i + v is lane i of vector v of the group's part of a load.
  struct Panel {
    alignas(64) std::int16_t words[kPanelInputs / 2][2 * kPanelColumns];
    alignas(64) float scales[kPanelInputs / kGroup][kPanelColumns];
  };

  static HWY_INLINE void fill(const MatmulTile& tile, const PanelRange& range, Panel& panel) {
    RowCursor rows[kPanelColumns];
    for (std::int64_t c = 0; c < kPanelColumns; ++c) {
      rows[c] = cursor_of<WeightFormat::kFp4>(*tile.weight, std::min(range.n + c, tile.n_end - 1));
      for (std::int64_t k = range.begin; k < range.end; k += 128) {
        prefetch_next_panel<IntegerFp4Products>(tile, rows[c], k / 2);
      }
    }
    for (std::int64_t group = 0; group < range.num_inputs() / kGroup; ++group) {
      const std::int64_t k = range.begin + group * kGroup;
      for (std::int64_t v = 0; v < kVectors; ++v) fill_group(rows + v * kLanes, k, group, v, panel);
      if (k % kActivationGroup == 0) fill_scales(rows, k, panel.scales + group);
    }
  }

  template <int kTileRows>
  static HWY_NOINLINE void multiply(const float* const (&packed)[kTileRows], const PanelRange& range,
                                    const Panel& panel, float* sums) {
    const std::int64_t num_groups = range.num_inputs() / kGroup;
    const std::int64_t num_first = begin_sums<kTileRows>(range, sums);
    const IntegerBlock* x[kTileRows];
    for (int m = 0; m < kTileRows; ++m) x[m] = reinterpret_cast<const IntegerBlock*>(packed[m]);
    for (std::int64_t group = 0; group < num_groups; ++group) {
      Int32Vec products[kTileRows][kVectors];
      multiply_group<kTileRows>(x, group, panel, products);
#pragma GCC unroll 8
      for (int m = 0; m < kTileRows; ++m) {
        const IntegerBlock& block = x[m][group * kGroup / kActivationGroup];
        const std::uint32_t low_pairs = block.low_pairs[group % (kActivationGroup / kGroup)];
        if (HWY_UNLIKELY(low_pairs != 0)) add_low_pairs(block, low_pairs, group, panel, products[m]);
      }
      if (group < num_first) {
        add_to_sums<true>(x, products, group, panel, sums);
      } else {
        add_to_sums<false>(x, products, group, panel, sums);
      }
    }
  }

 private:
  friend struct GroupSums;

  /// Adds the products of `count` inputs from k on, those of four loads or fewer.
  template <bool kWhole, int kFewRows>
  static HWY_INLINE void add_loads(const RowCursor& row, const float* const (&packed)[kFewRows],
                                   std::int64_t k, std::int64_t count, FloatVec (&sums)[kFewRows]) {
    const Int16Tag d16;
    Int32Vec products[kFewRows][kLoadsTogether];
#pragma GCC unroll 4
    for (std::int64_t load = 0; load < kLoadsTogether; ++load) {
      if (!kWhole && load * kInputsPerLoad >= count) {
        for (int m = 0; m < kFewRows; ++m) products[m][load] = hn::Zero(Int32Tag());
        continue;
      }
      const std::int64_t at = k + load * kInputsPerLoad;
      const std::int64_t in_block = load * kInputsPerLoad % kActivationGroup;  // k begins a block
      const WeightBytes weights(hn::LoadU(ByteTag(), row.codes + at / 2));
      if (kFewRows == 1) prefetch_ahead(row, at / 2);
      const Int16Vec words[kWordVectors] = {weights.Words<0>(), weights.Words<1>(), weights.Words<2>(),
                                            weights.Words<3>()};
      for (int m = 0; m < kFewRows; ++m) {
        const auto& block = reinterpret_cast<const IntegerBlock*>(packed[m])[at / kActivationGroup];
        Int32Vec product = multiply_pairs(hn::Load(d16, block.high + in_block), words[0]);
        for (int v = 1; v < kWordVectors; ++v) {
          const std::int16_t* high = block.high + in_block + v * 2 * kLanes;
          product = add_pairs<kWordDots>(product, hn::Load(d16, high), words[v]);
        }
        if (HWY_UNLIKELY(load_has_low(block, in_block / kGroup))) {
          product = add_low_products(product, block.low + in_block, weights);
        }
        products[m][load] = product;
      }
    }
    const FloatVec group_scales = scales_of_groups<kWhole>(row.group_scales + k / kGroup, count / kGroup);
    for (int m = 0; m < kFewRows; ++m) {
      const auto* blocks = reinterpret_cast<const IntegerBlock*>(packed[m]) + k / kActivationGroup;
      FloatVec scales;
      if constexpr (kScaled == kGroup) {
        scales = activation_scales<kWhole>(blocks, count / kActivationGroup);
      } else {
        scales = scales_of_blocks(blocks, count / kActivationGroup);
      }
      sums[m] = add_groups(sums_of_groups(products[m]), scales, group_scales, sums[m]);
    }
  }

  static HWY_INLINE bool load_has_low(const IntegerBlock& block, std::int64_t first_group) {
    std::uint64_t any = 0;
    std::memcpy(&any, block.low_pairs + first_group, sizeof(std::uint16_t) * kGroupsPerLoad);
    return any != 0;
  }

  /// Vector v of the columns of a group: kLanes weight rows, turned by words of 32 bits.
  static HWY_INLINE void fill_group(const RowCursor* rows, std::int64_t k, std::int64_t group, std::int64_t v,
                                    Panel& panel) {
    ByteVec turned[4];
    turn_rows(rows, k / 2, turned);
    for (std::int64_t i = 0; i < 4; ++i) {
      const WeightBytes weights(turned[i]);
      auto* words = panel.words + group * (kGroup / 2) + 4 * i;
      hn::Store(weights.Words<0>(), Int16Tag(), words[0] + v * 2 * kLanes);
      hn::Store(weights.Words<1>(), Int16Tag(), words[1] + v * 2 * kLanes);
      hn::Store(weights.Words<2>(), Int16Tag(), words[2] + v * 2 * kLanes);
      hn::Store(weights.Words<3>(), Int16Tag(), words[3] + v * 2 * kLanes);
    }
  }

  /// Inputs of its block that are in loads before the group's; and how many groups of its load are before it.
  static constexpr std::int64_t load_of(std::int64_t group) {
    return group % (kActivationGroup / kGroup) / kGroupsPerLoad * kInputsPerLoad;
  }
  static constexpr std::int64_t place_in_load(std::int64_t group) { return group % kGroupsPerLoad; }

  /// Adds the sums of a group to their accumulators.
  template <bool kFirst, int kTileRows>
  static HWY_INLINE void add_to_sums(const IntegerBlock* const (&x)[kTileRows],
                                     const Int32Vec (&products)[kTileRows][kVectors], std::int64_t group,
                                     const Panel& panel, float* sums) {
    const FloatTag d;
    for (int m = 0; m < kTileRows; ++m) {
      const IntegerBlock& block = x[m][group * kGroup / kActivationGroup];
      const FloatVec block_scale = hn::Set(d, block.scales[group % (kActivationGroup / kGroup)]);
      float* to = sums + m * kRowSums + accumulator_of(group % kLanes) * kPanelColumns;
      for (int v = 0; v < kVectors; ++v, to += kLanes) {
        const FloatVec group_scale = hn::Load(d, panel.scales[group] + v * kLanes);
        hn::Store(add_groups(products[m][v], block_scale, group_scale, sum_so_far<kFirst>(to)), d, to);
      }
    }
  }

  template <int kTileRows>
  static HWY_INLINE void multiply_group(const IntegerBlock* const (&x)[kTileRows], std::int64_t group,
                                        const Panel& panel, Int32Vec (&products)[kTileRows][kVectors]) {
    const std::int64_t block = group * kGroup / kActivationGroup;
    const std::int16_t* high[kTileRows];
    for (int m = 0; m < kTileRows; ++m) {
      high[m] = x[m][block].high + load_of(group) + 8 * place_in_load(group);
    }
#pragma GCC unroll 16
    for (std::int64_t pair = 0; pair < kGroup / 2; ++pair) {
      const std::int64_t at = pair % 4 * 2 * kLanes + pair / 4 * 2;
      Int16Vec weights[kVectors];
      for (int v = 0; v < kVectors; ++v) {
        weights[v] =
            in_register(hn::Load(Int16Tag(), panel.words[group * (kGroup / 2) + pair] + v * 2 * kLanes));
      }
      for (int m = 0; m < kTileRows; ++m) {
        std::int32_t both;
        std::memcpy(&both, high[m] + at, sizeof(both));
        const auto activations = hn::BitCast(Int16Tag(), hn::Set(Int32Tag(), both));
        for (int v = 0; v < kVectors; ++v) {
          // A chain: GCC else makes trees of these sums, which need more registers than there are.
          products[m][v] = pair == 0
                               ? multiply_pairs(activations, weights[v])
                               : in_register(add_pairs<kWordDots>(products[m][v], activations, weights[v]));
        }
      }
    }
  }

  /// Adds the products of the low parts of the pairs that have any.
  static HWY_INLINE void add_low_pairs(const IntegerBlock& x, std::uint32_t pairs, std::int64_t group,
                                       const Panel& panel, Int32Vec (&sums)[kVectors]) {
    const std::uint8_t* low = x.low + load_of(group) + 16 * place_in_load(group);
    do {
      const auto pair = static_cast<std::int64_t>(hwy::Num0BitsBelowLS1Bit_Nonzero32(pairs));
      const std::int64_t i = pair / 4, v = pair % 4;  // inputs 8 i + v and 8 i + v + 4
      const std::uint8_t* at = low + v % 2 * 4 * kLanes + 4 * i + v / 2;
      const auto both = hn::BitCast(Int16Tag(), hn::Set(Int32Tag(), at[0] | at[2] << 16));
      const std::int16_t* words = panel.words[group * (kGroup / 2) + pair];
      for (int c = 0; c < kVectors;
           ++c, words += 2 * kLanes) {  // 256 times the weights: the division is exact
        const auto products = multiply_pairs(both, hn::Load(Int16Tag(), words));
        sums[c] = hn::Add(sums[c], hn::ShiftRight<kLowBits>(products));
      }
      pairs &= pairs - 1;
    } while (pairs != 0);
  }
};

}  // namespace baleen::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // BALEEN_OPS_MATMUL_INTEGER_FP4_INL_H_
