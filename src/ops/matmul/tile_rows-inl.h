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

/// A panel: four weight rows, 1,024 inputs of each. Unpacked it takes 14 to 17 KB of the first-level cache,
/// beside which the rows of activations pass.
constexpr int kPanelColumns = 4;
constexpr std::int64_t kPanelInputs = 1024;

/// What of a product a panel holds.
struct PanelRange {
  std::int64_t n = 0;  ///< first weight row; those past the tile repeat its last
  std::int64_t begin = 0;
  std::int64_t end = 0;  ///< of inputs, in multiples of 128
};

/// Asks for the codes `at` bytes into the weight row that is in this one's place in the next panel. Between
/// the two the processor sees other addresses, and its own prefetchers forget.
HWY_INLINE void prefetch_next_panel(const MatmulTile& tile, const RowCursor& row, std::int64_t at) {
  hwy::Prefetch(row.codes + kPanelColumns * tile.weight->row_bytes() + at);
}

HWY_INLINE std::int64_t packed_row(const MatmulTile& tile, std::int64_t m) {
  return tile.row_index == nullptr ? m : tile.row_index[m];
}

/// Rows m to m + kRows - 1 times a panel. `carried`: their accumulators between one range of inputs and the
/// next.
template <class Products, int kRows>
HWY_INLINE void panel_rows(const MatmulTile& tile, std::int64_t m, const PanelRange& range,
                           const typename Products::Panel& panel, float* carried) {
  const FloatTag d;
  const float* x[kRows];
  FloatVec sums[kRows][kPanelColumns];
  for (int i = 0; i < kRows; ++i) {
    x[i] = tile.packed + packed_row(tile, m + i) * tile.weight->cols + range.begin;
    for (int c = 0; c < kPanelColumns; ++c) {
      sums[i][c] = range.begin == 0 ? hn::Zero(d) : hn::Load(d, carried + (i * kPanelColumns + c) * kLanes);
    }
  }
  Products::template multiply<kRows>(x, range.end - range.begin, panel, sums);
  for (int i = 0; i < kRows; ++i) {
    if (range.end == tile.weight->cols) {
      store_columns(tile, m + i, range.n, kPanelColumns, sums[i][0], sums[i][1], sums[i][2], sums[i][3]);
      continue;
    }
    for (int c = 0; c < kPanelColumns; ++c)
      hn::Store(sums[i][c], d, carried + (i * kPanelColumns + c) * kLanes);
  }
}

/// The last, fewer rows.
template <class Products, int kRows>
HWY_INLINE void remaining_rows(const MatmulTile& tile, std::int64_t m, std::int64_t count,
                               const PanelRange& range, const typename Products::Panel& panel,
                               float* carried) {
  if constexpr (kRows > 0) {
    if (count == kRows) return panel_rows<Products, kRows>(tile, m, range, panel, carried);
    remaining_rows<Products, kRows - 1>(tile, m, count, range, panel, carried);
  }
}

template <class Products>
void many_rows(const MatmulTile& tile) {
  // So many rows pass a panel that unpacking it is little beside them, and that they stay in a second-level
  // cache from one panel to the next: 512 KB of activations.
  constexpr std::int64_t kMaxRows = 64, kPassInputs = 128 << 10;
  constexpr std::int64_t kRows = Products::kRows;
  const std::int64_t num_inputs = tile.weight->cols;
  const std::int64_t most_rows = std::clamp<std::int64_t>(kPassInputs / num_inputs, 4 * kRows, kMaxRows);
  const std::int64_t num_passes = (tile.num_rows + most_rows - 1) / most_rows;
  const std::int64_t pass_rows = (tile.num_rows + num_passes - 1) / num_passes;
  typename Products::Panel panel;
  alignas(64) float carried[kMaxRows * kPanelColumns * kLanes];
  for (std::int64_t m_begin = 0; m_begin < tile.num_rows; m_begin += pass_rows) {
    const std::int64_t m_end = std::min(m_begin + pass_rows, tile.num_rows);
    PanelRange range;
    for (range.n = tile.n_begin; range.n < tile.n_end; range.n += kPanelColumns) {
      for (range.begin = 0; range.begin < num_inputs; range.begin = range.end) {
        range.end = std::min(range.begin + kPanelInputs, num_inputs);
        Products::fill(tile, range, panel);
        std::int64_t m = m_begin;
        for (; m + kRows <= m_end; m += kRows) {
          panel_rows<Products, kRows>(tile, m, range, panel,
                                      carried + (m - m_begin) * kPanelColumns * kLanes);
        }
        remaining_rows<Products, kRows - 1>(tile, m, m_end - m, range, panel,
                                            carried + (m - m_begin) * kPanelColumns * kLanes);
      }
    }
  }
}

template <class Products, int kRows>
void few_rows(const MatmulTile& tile) {
  const float* x[kRows];
  for (int m = 0; m < kRows; ++m) x[m] = tile.packed + packed_row(tile, m) * tile.weight->cols;
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
///     Panel, kRows                                  unpacked weights; rows that meet them at a time
///     fill(tile, range, panel)
///     multiply<rows>(x, num_inputs, panel, sums)    adds those of a panel's inputs, from x[row] on
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
