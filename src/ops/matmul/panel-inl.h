// Many rows of activations: weights are unpacked a panel at a time and serve them all. Included once per instruction
// set (Highway).

#if defined(BALEEN_OPS_MATMUL_PANEL_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BALEEN_OPS_MATMUL_PANEL_INL_H_
#undef BALEEN_OPS_MATMUL_PANEL_INL_H_
#else
#define BALEEN_OPS_MATMUL_PANEL_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>

#include "ops/matmul/tile_output-inl.h"

HWY_BEFORE_NAMESPACE();
namespace baleen::HWY_NAMESPACE {

/// The same value, computed here and in a register: GCC otherwise loads an operand again for each of its uses, or
/// reorders integer sums.
template <class V>
HWY_INLINE V in_register(V v) {
#if HWY_ARCH_X86
  asm("" : "+v"(v.raw));
#endif
  return v;
}

/// A panel: four weight rows, 1,024 inputs of each. Unpacked it takes 14 to 17 KB of the first-level cache, beside which
/// the rows of activations pass.
constexpr int kPanelColumns = 4;
constexpr std::int64_t kPanelInputs = 1024;

/// What of a product a panel holds.
struct PanelRange {
  std::int64_t n = 0;  ///< first weight row; those past the tile repeat its last
  std::int64_t begin = 0;
  std::int64_t end = 0;  ///< of inputs, in multiples of 128
};

HWY_INLINE std::int64_t packed_row(const MatmulTile& tile, std::int64_t m) {
  return tile.row_index == nullptr ? m : tile.row_index[m];
}

/// Rows m to m + kRows - 1 times a panel. `carried`: their accumulators between one range of inputs and the next.
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

/// `Products` says how a kind of product is done:
///     Panel, kRows       the unpacked weights; rows of activations at a time
///     fill(tile, range, panel)
///     multiply<rows>(x, num_inputs, panel, sums)    adds the products of `num_inputs` inputs from x[row] on
template <class Products>
void panel_tile(const MatmulTile& tile) {
  // So many rows pass a panel that unpacking it is little beside them, and that they stay in a second-level cache of
  // 512 KB from one panel to the next.
  constexpr std::int64_t kMaxRows = 48, kPassInputs = 96 << 10;
  constexpr std::int64_t kRows = Products::kRows;
  const std::int64_t num_inputs = tile.weight->cols;
  const std::int64_t pass_rows =
      std::clamp<std::int64_t>(kPassInputs / num_inputs / kRows * kRows, 2 * kRows, kMaxRows / kRows * kRows);
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

}  // namespace baleen::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // BALEEN_OPS_MATMUL_PANEL_INL_H_
