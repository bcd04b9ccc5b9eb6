// Activations of 8 bits times FP4 weights, or FP8 weights as integers of 7 bits (WeightFormat::kInt8).
// Included once per instruction set (Highway).
//
// Weights are unsigned bytes: their integers plus an offset. One instruction multiplies unsigned and signed
// bytes and adds neighbours to 16 bits, another adds neighbours of those to 32 (VNNI does both). What the
// offset adds to a sum is the activations' sum times the offset, which is known when they are packed: sums
// begin with its negative. 16-bit sums may pass 2^15 on the way, but not in the end, and wrap around until
// then. So the sum of a group of 32 is exact, in whatever order.
//
// The order of an output's sum, the same for every number of rows: a group's exact integer, as float32, times
// the activations' scale, enters one of kLanes accumulators by one multiply-add with the group's scale, in
// ascending k. `accumulator_of` says which. Then the accumulators are added as lanes are.
//
// Few rows: lanes are groups, of four loads of one weight row. Many rows: lanes are columns of a panel.

#if defined(BALEEN_OPS_MATMUL_INT8_PRODUCTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BALEEN_OPS_MATMUL_INT8_PRODUCTS_INL_H_
#undef BALEEN_OPS_MATMUL_INT8_PRODUCTS_INL_H_
#else
#define BALEEN_OPS_MATMUL_INT8_PRODUCTS_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "numeric/int8_group.h"
#include "ops/matmul/group_sums-inl.h"
#include "ops/matmul/int8_block-inl.h"

HWY_BEFORE_NAMESPACE();
namespace baleen::HWY_NAMESPACE {

/// FP4 or kInt8 times activations of 8 bits; the same integers with `kByteDots`, for which the machine must
/// have such dots.
template <WeightFormat kFormat, bool kByteDots>
struct Int8Products : GroupSums {
  using Weights = UnsignedWeights<kFormat>;

  static void pack_row(const float* x, std::int64_t num_inputs, ActivationRounding /*kInt8*/, float* packed) {
    for (std::int64_t k = 0; k < num_inputs; k += kActivationGroup) {
      pack_int8_block(x + k, Weights::kOffset, Weights::kUnit, packed + k);
    }
  }

  template <int kFewRows>
  static HWY_INLINE void multiply_column(const MatmulTile& tile, const float* const (&packed)[kFewRows],
                                         std::int64_t n, FloatVec (&results)[kFewRows]) {
    sum_column<Int8Products, kFormat, kFewRows>(tile, packed, n, results);
  }

  /// Columns side by side: lane c of `quads[p]` has the bytes of column c for four inputs. In a group, quad
  /// 2 i + h has inputs 8 i + h, and every second one after it.
  struct Panel {
    alignas(64) std::uint8_t quads[kPanelInputs / 4][4 * kPanelColumns];
    alignas(64) float scales[kPanelInputs / kGroup][kPanelColumns];
  };

  static HWY_INLINE void fill(const MatmulTile& tile, const PanelRange& range, Panel& panel) {
    RowCursor rows[kPanelColumns];
    for (std::int64_t c = 0; c < kPanelColumns; ++c) {
      rows[c] = cursor_of<kFormat>(*tile.weight, std::min(range.n + c, tile.n_end - 1));
      for (std::int64_t at = Weights::place(range.begin); at < Weights::place(range.end); at += 64) {
        prefetch_next_panel<Int8Products>(tile, rows[c], at);
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
    const std::int64_t num_first = begin_sums<kTileRows>(range, sums);
    const Int8Block* x[kTileRows];
    for (int m = 0; m < kTileRows; ++m) x[m] = reinterpret_cast<const Int8Block*>(packed[m]);
    for (std::int64_t group = 0; group < range.num_inputs() / kGroup; ++group) {
      Int32Vec products[kTileRows][kVectors];
      multiply_group<kTileRows>(x, group, panel, products);
      if (group < num_first) {
        add_to_sums<true>(x, products, group, panel, sums);
      } else {
        add_to_sums<false>(x, products, group, panel, sums);
      }
    }
  }

 private:
  friend struct GroupSums;

  static constexpr std::int64_t kGroupsPerBlock = kActivationGroup / kGroup;

  /// Adds the products of `count` inputs from k on, those of four loads or fewer.
  template <bool kWhole, int kFewRows>
  static HWY_INLINE void add_loads(const RowCursor& row, const float* const (&packed)[kFewRows],
                                   std::int64_t k, std::int64_t count, FloatVec (&sums)[kFewRows]) {
    const ByteTag d8;
    Int32Vec products[kFewRows][kLoadsTogether];
#pragma GCC unroll 4
    for (std::int64_t load = 0; load < kLoadsTogether; ++load) {
      if (!kWhole && load * kInputsPerLoad >= count) {
        for (int m = 0; m < kFewRows; ++m) products[m][load] = hn::Zero(Int32Tag());
        continue;
      }
      const std::int64_t at = k + load * kInputsPerLoad;
      const std::int64_t in_block = load * kInputsPerLoad % kActivationGroup;  // k begins a block
      const Weights weights(row, at);
      if (kFewRows == 1 && kFormat == WeightFormat::kFp4) prefetch_ahead(row, at / 2);
      for (int m = 0; m < kFewRows; ++m) {
        const auto& block = reinterpret_cast<const Int8Block*>(packed[m])[at / kActivationGroup];
        const auto* codes = reinterpret_cast<const std::uint8_t*>(block.codes) + in_block / 2;
        products[m][load] = sums_of_quads<kByteDots>(hn::Load(Int16Tag(), block.offsets + in_block / 4),
                                                     weights.half[0], hn::Load(d8, codes), weights.half[1],
                                                     hn::Load(d8, codes + kActivationGroup / 2));
      }
    }
    const FloatVec group_scales = scales_of_groups<kWhole>(row.group_scales + k / kGroup, count / kGroup);
    for (int m = 0; m < kFewRows; ++m) {
      const auto* blocks = reinterpret_cast<const Int8Block*>(packed[m]) + k / kActivationGroup;
      sums[m] =
          add_groups(sums_of_groups(products[m]), activation_scales<kWhole>(blocks, count / kActivationGroup),
                     group_scales, sums[m]);
    }
  }

  /// Vector v of the columns of a group: kLanes weight rows, turned by words of 32 bits.
  static HWY_INLINE void fill_group(const RowCursor* rows, std::int64_t k, std::int64_t group, std::int64_t v,
                                    Panel& panel) {
    const auto store = [&](ByteVec bytes, std::int64_t quad) {
      hn::Store(bytes, ByteTag(), panel.quads[group * (kGroup / 4) + quad] + v * 4 * kLanes);
    };
    ByteVec turned[4];
    if constexpr (kFormat == WeightFormat::kFp4) {
      turn_rows(rows, Weights::place(k), turned);
      for (std::int64_t i = 0; i < 4; ++i) {
        const Weights weights(turned[i]);
        store(weights.half[0], 2 * i);
        store(weights.half[1], 2 * i + 1);
      }
    } else {
      for (std::int64_t half = 0; half < 2; ++half) {
        turn_rows(rows, Weights::place(k + half), turned);
        for (std::int64_t i = 0; i < 4; ++i) store(turned[i], 2 * i + half);
      }
    }
  }

  template <int kTileRows>
  static HWY_INLINE void multiply_group(const Int8Block* const (&x)[kTileRows], std::int64_t group,
                                        const Panel& panel, Int32Vec (&products)[kTileRows][kVectors]) {
    const std::int64_t block = group / kGroupsPerBlock, in_block = group % kGroupsPerBlock;
    const auto quad = [&](std::int64_t i, int v) {
      return in_register(hn::Load(ByteTag(), panel.quads[group * (kGroup / 4) + i] + v * 4 * kLanes));
    };
    const std::int8_t* codes[kTileRows];
    for (int m = 0; m < kTileRows; ++m) codes[m] = x[m][block].codes + in_block * (kGroup / 2);
    const auto activations = [&](int m, std::int64_t i) {
      return broadcast_quad(codes[m] + i / 2 * 4 + i % 2 * (kActivationGroup / 2));
    };
    if constexpr (kByteDots) {
      for (int m = 0; m < kTileRows; ++m) {
        for (int v = 0; v < kVectors; ++v) {
          products[m][v] = hn::Set(Int32Tag(), x[m][block].offset_sums[in_block]);
        }
      }
#pragma GCC unroll 8
      for (std::int64_t i = 0; i < kGroup / 4; ++i) {
        ByteVec weights[kVectors];
        for (int v = 0; v < kVectors; ++v) weights[v] = quad(i, v);
        for (int m = 0; m < kTileRows; ++m) {
          const ByteVec a = activations(m, i);
          for (int v = 0; v < kVectors; ++v) products[m][v] = add_byte_dots(products[m][v], weights[v], a);
        }
      }
    } else if constexpr (Weights::kGroupFits16Bits) {
      Int16Vec sums[kTileRows][kVectors];
      for (int m = 0; m < kTileRows; ++m) {
        for (int v = 0; v < kVectors; ++v) sums[m][v] = broadcast_pair(x[m][block].word_offsets[in_block]);
      }
#pragma GCC unroll 8
      for (std::int64_t i = 0; i < kGroup / 4; ++i) {
        ByteVec weights[kVectors];
        for (int v = 0; v < kVectors; ++v) weights[v] = quad(i, v);
        for (int m = 0; m < kTileRows; ++m) {
          const ByteVec a = activations(m, i);
          for (int v = 0; v < kVectors; ++v) {
            sums[m][v] = in_register(hn::Add(sums[m][v], multiply_bytes(weights[v], a)));
          }
        }
      }
      for (int m = 0; m < kTileRows; ++m) {
        for (int v = 0; v < kVectors; ++v) products[m][v] = add_neighbours(sums[m][v]);
      }
    } else {
#pragma GCC unroll 4
      for (std::int64_t i = 0; i < kGroup / 4; i += 2) {
        ByteVec even[kVectors], odd[kVectors];
        for (int v = 0; v < kVectors; ++v) {
          even[v] = quad(i, v);
          odd[v] = quad(i + 1, v);
        }
        for (int m = 0; m < kTileRows; ++m) {
          const ByteVec a_even = activations(m, i), a_odd = activations(m, i + 1);
          const Int16Vec start = broadcast_pair(x[m][block].offsets + in_block * (kGroup / 4) + i);
          for (int v = 0; v < kVectors; ++v) {
            const Int32Vec sum = sums_of_quads<false>(start, even[v], a_even, odd[v], a_odd);
            products[m][v] = i == 0 ? sum : in_register(hn::Add(products[m][v], sum));
          }
        }
      }
    }
  }

  /// Adds the sums of a group to their accumulators.
  template <bool kFirst, int kTileRows>
  static HWY_INLINE void add_to_sums(const Int8Block* const (&x)[kTileRows],
                                     const Int32Vec (&products)[kTileRows][kVectors], std::int64_t group,
                                     const Panel& panel, float* sums) {
    const FloatTag d;
    for (int m = 0; m < kTileRows; ++m) {
      const auto scale = hn::Set(d, x[m][group / kGroupsPerBlock].scales[group % kGroupsPerBlock]);
      float* to = sums + m * kRowSums + accumulator_of(group % kLanes) * kPanelColumns;
      for (int v = 0; v < kVectors; ++v, to += kLanes) {
        const FloatVec group_scale = hn::Load(d, panel.scales[group] + v * kLanes);
        hn::Store(add_groups(products[m][v], scale, group_scale, sum_so_far<kFirst>(to)), d, to);
      }
    }
  }
};

}  // namespace baleen::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // BALEEN_OPS_MATMUL_INT8_PRODUCTS_INL_H_
