#include "ops/dense_product/bf16_kernels.h"

#if defined(__x86_64__)

#include <immintrin.h>

#include <algorithm>

#define BALEEN_TILES __attribute__((target("amx-tile,amx-bf16")))

namespace baleen {
namespace {

/// What LDTILECFG reads: tiles 0 to 3 hold sums, 4 and 5 rows of A, 6 and 7 panels of B, all 16 rows of 64
/// bytes.
struct alignas(64) TileConfig {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(TileConfig) == 64);

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
BALEEN_TILES void multiply_tiles(const DenseProduct<float>& p, const Bf16Operands& o, std::int64_t row,
                                 std::int64_t panel) {
  const std::int64_t row_bytes = o.inner * static_cast<std::int64_t>(sizeof(Bf16Bits));
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (std::int64_t at = 0; at < o.inner; at += kInnerBlock) {
    _tile_loadd(4, o.row(row) + at, row_bytes);
    _tile_loadd(6, o.panel(panel) + at * kPanelColumns, kTileBytes);
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (kPanels == 2) {
      _tile_loadd(7, o.panel(panel + 1) + at * kPanelColumns, kTileBytes);
      _tile_dpbf16ps(1, 4, 7);
    }
    if constexpr (kRows == 2) {
      _tile_loadd(5, o.row(row + kTile) + at, row_bytes);
      _tile_dpbf16ps(2, 5, 6);
      if constexpr (kPanels == 2) _tile_dpbf16ps(3, 5, 7);
    }
  }
  alignas(64) float sums[4][kTile * kTile];
  _tile_stored(0, sums[0], kTileBytes);
  _tile_stored(1, sums[1], kTileBytes);
  _tile_stored(2, sums[2], kTileBytes);
  _tile_stored(3, sums[3], kTileBytes);
  for (int m = 0; m < kRows; ++m)
    for (int n = 0; n < kPanels; ++n)
      write_tile(sums[2 * m + n], p, row + m * kTile, (panel + n) * kPanelColumns);
}

template <int kPanels>
BALEEN_TILES void tile_panels(const DenseProduct<float>& p, const Bf16Operands& o, std::int64_t panel) {
  std::int64_t row = 0;
  for (; row + kTile < p.m; row += 2 * kTile) multiply_tiles<2, kPanels>(p, o, row, panel);
  for (; row < p.m; row += kTile) multiply_tiles<1, kPanels>(p, o, row, panel);
}

}  // namespace

BALEEN_TILES void multiply_by_tiles(const DenseProduct<float>& p, const Bf16Operands& o) {
  const TileConfig config;
  _tile_loadconfig(&config);
  std::int64_t panel = 0;
  for (; panel + 2 <= o.panels; panel += 2) tile_panels<2>(p, o, panel);
  for (; panel < o.panels; ++panel) tile_panels<1>(p, o, panel);
  _tile_release();
}

}  // namespace baleen

#endif
