#include "ops/dense_product/bf16_kernels.h"

#if defined(__x86_64__)

#include <algorithm>

#include "numeric/tile_registers.h"

namespace baleen {
namespace {

constexpr std::int64_t kTile = 16;
constexpr std::int64_t kTileBytes = 64;

/// Adds what of the tile at (row, column) lies in c.
void write_tile(const float* sums, const DenseProduct<float>& p, std::int64_t row, std::int64_t column) {
  const std::int64_t height = std::min(kTile, p.m - row);
  const std::int64_t width = std::min(kTile, p.n - column);
  for (std::int64_t i = 0; i < height; ++i) {
    float* const c = p.c + (row + i) * p.c_stride + column;
    for (std::int64_t j = 0; j < width; ++j)
      c[j] = (p.accumulate ? c[j] : 0.0F) + p.alpha * sums[i * kTile + j];
  }
}

/// 16 kRows rows from `row` on by kPanels panels.
template <int kRows, int kPanels>
void multiply_tiles(const DenseProduct<float>& p, const Bf16Operands& o, std::int64_t row,
                    std::int64_t panel) {
  const std::int64_t row_bytes = o.inner * static_cast<std::int64_t>(sizeof(Bf16Bits));
  TileRegisters::zero<0>();
  TileRegisters::zero<1>();
  TileRegisters::zero<2>();
  TileRegisters::zero<3>();
  for (std::int64_t at = 0; at < o.inner; at += kInnerBlock) {
    TileRegisters::load<4>(o.row(row) + at, row_bytes);
    TileRegisters::load<6>(o.panel(panel) + at * kPanelColumns, kTileBytes);
    TileRegisters::add_products<0, 4, 6>();
    if constexpr (kPanels == 2) {
      TileRegisters::load<7>(o.panel(panel + 1) + at * kPanelColumns, kTileBytes);
      TileRegisters::add_products<1, 4, 7>();
    }
    if constexpr (kRows == 2) {
      TileRegisters::load<5>(o.row(row + kTile) + at, row_bytes);
      TileRegisters::add_products<2, 5, 6>();
      if constexpr (kPanels == 2) TileRegisters::add_products<3, 5, 7>();
    }
  }
  alignas(64) float sums[4][kTile * kTile];
  TileRegisters::store<0>(sums[0], kTileBytes);
  TileRegisters::store<1>(sums[1], kTileBytes);
  TileRegisters::store<2>(sums[2], kTileBytes);
  TileRegisters::store<3>(sums[3], kTileBytes);
  for (int m = 0; m < kRows; ++m)
    for (int n = 0; n < kPanels; ++n)
      write_tile(sums[2 * m + n], p, row + m * kTile, (panel + n) * kPanelColumns);
}

template <int kPanels>
void tile_panels(const DenseProduct<float>& p, const Bf16Operands& o, std::int64_t panel) {
  std::int64_t row = 0;
  for (; row + kTile < p.m; row += 2 * kTile) multiply_tiles<2, kPanels>(p, o, row, panel);
  for (; row < p.m; row += kTile) multiply_tiles<1, kPanels>(p, o, row, panel);
}

}  // namespace

void multiply_by_tiles(const DenseProduct<float>& p, const Bf16Operands& o) {
  TileRegisters::configure(tiles_of_products(kTileBytes));
  std::int64_t panel = 0;
  for (; panel + 2 <= o.panels; panel += 2) tile_panels<2>(p, o, panel);
  for (; panel < o.panels; ++panel) tile_panels<1>(p, o, panel);
  TileRegisters::release();
}

}  // namespace baleen

#endif
