// What is done with few and with many rows of activations, whatever the kind of products. Included once per
// instruction set (Highway).
//
// Up to four rows: a weight row at a time, unpacked in registers. Weights then are one stream of consecutive
// bytes for each thread, which is what hardware prefetchers want: on Zen 4 one core reads 18 GB/s so, and 7
// to 12 GB/s of two or four rows side by side, with or without prefetch instructions. More rows: a panel of
// unpacked weights at a time, for all of them.

#if defined(BALEEN_OPS_MATMUL_TILE_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BALEEN_OPS_MATMUL_TILE_ROWS_INL_H_
#undef BALEEN_OPS_MATMUL_TILE_ROWS_INL_H_
#else
#define BALEEN_OPS_MATMUL_TILE_ROWS_INL_H_
#endif

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>

#include "ops/matmul/tile_output-inl.h"

HWY_BEFORE_NAMESPACE();
namespace baleen::HWY_NAMESPACE {

/// The same value, computed here and in a register: GCC otherwise loads an operand again for each of its
/// uses, or reorders integer sums.
template <class V>
HWY_INLINE V in_register(V v) {
#if HWY_ARCH_X86
  asm("" : "+v"(v.raw));
#endif
  return v;
}

/// A panel: some weight rows, 512 inputs of each. Unpacked it takes 10 to 25 KB of the first-level cache,
/// beside which the rows of activations pass.
constexpr std::int64_t kPanelInputs = 512;

/// What of a product a panel holds.
struct PanelRange {
  std::int64_t n = 0;  ///< first weight row; those past the tile repeat its last
  std::int64_t begin = 0;
  std::int64_t end = 0;  ///< inputs, in multiples of 128
  std::int64_t num_inputs() const { return end - begin; }
};

/// An accumulator in memory, or zero if nothing has been added to it.
template <bool kFirst>
HWY_INLINE FloatVec sum_so_far(const float* sum) {
  return kFirst ? hn::Zero(FloatTag()) : hn::Load(FloatTag(), sum);
}

/// Asks for the codes `at` bytes into the weight row that is in this one's place in the next panel. Between
/// the two the processor sees other addresses, and its own prefetchers forget.
template <class Products>
HWY_INLINE void prefetch_next_panel(const MatmulTile& tile, const RowCursor& row, std::int64_t at) {
  hwy::Prefetch(row.codes + Products::kPanelColumns * tile.weight->row_bytes() + at);
}

/// What products share whose panels have eight columns and whose sums are vectors of lanes to add up.
struct LaneSums {
  static constexpr int kPanelColumns = 8;
  /// Columns whose sums registers hold at a time.
  static constexpr int kTileColumns = 4;
  static constexpr std::int64_t kRowSums = kPanelColumns * kLanes;

  static HWY_INLINE void store_row(const MatmulTile& tile, std::int64_t m, std::int64_t n,
                                   const float* sums) {
    const FloatTag d;
    for (int c = 0; c < kPanelColumns; c += 4, sums += 4 * kLanes) {
      store_columns(tile, m, n + c, 4, hn::Load(d, sums), hn::Load(d, sums + kLanes),
                    hn::Load(d, sums + 2 * kLanes), hn::Load(d, sums + 3 * kLanes));
    }
  }
};

HWY_INLINE const float* packed_row(const MatmulTile& tile, std::int64_t m) {
  return tile.packed + (tile.row_index == nullptr ? m : tile.row_index[m]) * tile.weight->cols;
}

/// Rows m to m + kRows - 1 times a panel. `sums`: their accumulators [kRows, Products::kRowSums], in memory,
/// because registers hold those of a block.
template <class Products, int kRows>
HWY_INLINE void panel_rows(const MatmulTile& tile, std::int64_t m, const PanelRange& range,
                           const typename Products::Panel& panel, float* sums) {
  const float* x[kRows];
  for (int i = 0; i < kRows; ++i) {
    x[i] = packed_row(tile, m + i) + range.begin;
  }
  Products::template multiply<kRows>(x, range, panel, sums);
  if (range.end < tile.weight->cols) return;
  for (int i = 0; i < kRows; ++i) {
    Products::store_row(tile, m + i, range.n, sums + i * Products::kRowSums);
  }
}

/// The last, fewer rows.
template <class Products, int kRows>
HWY_INLINE void remaining_rows(const MatmulTile& tile, std::int64_t m, std::int64_t count,
                               const PanelRange& range, const typename Products::Panel& panel, float* sums) {
  if constexpr (kRows > 0) {
    if (count == kRows) return panel_rows<Products, kRows>(tile, m, range, panel, sums);
    remaining_rows<Products, kRows - 1>(tile, m, count, range, panel, sums);
  }
}

/// Rows m_begin to m_end - 1, at most kMaxRows, times all columns of the tile. Panels side by side see the
/// same inputs before the next inputs come: 128 rows of those, 256 KB of a second-level cache, pass for 32
/// columns, and unpacking a panel is little beside that many rows.
constexpr std::int64_t kMaxRows = 128;
constexpr std::int64_t kColumnsAbreast = 32;

template <class Products>
void pass_of_rows(const MatmulTile& tile, std::int64_t m_begin, std::int64_t m_end) {
  constexpr std::int64_t kRows = Products::kRows, kColumns = Products::kPanelColumns;
  constexpr std::int64_t kRowSums = Products::kRowSums;
  const std::int64_t num_inputs = tile.weight->cols;
  typename Products::Panel panel;
  alignas(64) float sums[kColumnsAbreast / kColumns][kMaxRows * kRowSums];
  for (std::int64_t n = tile.n_begin; n < tile.n_end; n += kColumnsAbreast) {
    const std::int64_t n_end = std::min(n + kColumnsAbreast, tile.n_end);
    for (std::int64_t begin = 0; begin < num_inputs; begin += kPanelInputs) {
      PanelRange range{n, begin, std::min(begin + kPanelInputs, num_inputs)};
      for (std::int64_t p = 0; range.n < n_end; ++p, range.n += kColumns) {
        Products::fill(tile, range, panel);
        std::int64_t m = m_begin;
        for (; m + kRows <= m_end; m += kRows) {
          panel_rows<Products, kRows>(tile, m, range, panel, sums[p] + (m - m_begin) * kRowSums);
        }
        remaining_rows<Products, kRows - 1>(tile, m, m_end - m, range, panel,
                                            sums[p] + (m - m_begin) * kRowSums);
      }
    }
  }
}

template <class Products>
void many_rows(const MatmulTile& tile) {
  const std::int64_t num_passes = (tile.num_rows + kMaxRows - 1) / kMaxRows;
  const std::int64_t pass_rows = (tile.num_rows + num_passes - 1) / num_passes;
  for (std::int64_t m = 0; m < tile.num_rows; m += pass_rows) {
    pass_of_rows<Products>(tile, m, std::min(m + pass_rows, tile.num_rows));
  }
}

/// Asks for what a weight row has `at` bytes and 2 KB on: rows follow each other, so it is all one stream.
/// Pays for one row of activations and FP4, which is unpacked the most slowly (Zen 4: 5 to 15%); FP8 and BF16
/// lose as much by it.
HWY_INLINE void prefetch_ahead(const RowCursor& row, std::int64_t at) {
  hwy::Prefetch(row.codes + at + 2048);
}

template <class Products, int kRows>
void few_rows(const MatmulTile& tile) {
  const float* x[kRows];
  for (int m = 0; m < kRows; ++m) x[m] = packed_row(tile, m);
  for (std::int64_t n = tile.n_begin; n < tile.n_end; n += 4) {
    FloatVec sums[4][kRows];
    for (std::int64_t i = 0; i < 4; ++i) {
      if (n + i < tile.n_end) {
        Products::template multiply_column<kRows>(tile, x, n + i, sums[i]);
      } else {
        std::copy_n(sums[0], kRows, sums[i]);  // not stored
      }
    }
    for (int m = 0; m < kRows; ++m) {
      store_columns(tile, m, n, 4, sums[0][m], sums[1][m], sums[2][m], sums[3][m]);
    }
  }
}

/// `Products` says how a kind of product is done:
///     pack_row(x, num_inputs, rounding, packed)     activations as it takes them
///     multiply_column<rows>(tile, x, n, sums)       sums of the products of rows x with weight row n
///     Panel, kPanelColumns, kRows                   unpacked weights; their columns; rows at a time
///     fill(tile, range, panel)
///     multiply<rows>(x, range, panel, sums)         adds those of a panel's inputs, from x[row] on, to
///                                                   sums [rows, kRowSums], which begin as zero if the range
///                                                   does; not inlined where registers are few: GCC allots
///                                                   them by what surrounds it, too
///     store_row(tile, m, n, sums)                   a row's outputs of a panel, from its kRowSums sums
template <class Products>
void any_rows(const MatmulTile& tile) {
  switch (tile.num_rows) {
    case 0:
      return;
    case 1:
      return few_rows<Products, 1>(tile);
    case 2:
      return few_rows<Products, 2>(tile);
    case 3:
      return few_rows<Products, 3>(tile);
    case 4:
      return few_rows<Products, 4>(tile);
    default:
      return many_rows<Products>(tile);
  }
}

}  // namespace baleen::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // BALEEN_OPS_MATMUL_TILE_ROWS_INL_H_
