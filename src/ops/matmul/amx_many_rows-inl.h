// More than 16 rows of activations times weights by AMX. Included once per instruction set (Highway).

#if defined(BALEEN_OPS_MATMUL_AMX_MANY_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BALEEN_OPS_MATMUL_AMX_MANY_ROWS_INL_H_
#undef BALEEN_OPS_MATMUL_AMX_MANY_ROWS_INL_H_
#else
#define BALEEN_OPS_MATMUL_AMX_MANY_ROWS_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>

#include "numeric/tile_registers.h"
#include "ops/matmul/amx_activations-inl.h"
#include "ops/matmul/amx_output-inl.h"
#include "ops/matmul/amx_weights-inl.h"

#if HWY_TARGET == HWY_AVX3

HWY_BEFORE_NAMESPACE();
namespace baleen::HWY_NAMESPACE {

/// More rows: for 512 inputs at a time, rows of activations are transposed, and panels of 32 weight rows
/// unpacked, each for up to 128 rows of activations. Accumulators of an output lie in memory; tile registers
/// hold the sums of a block, for two tiles of weights times two of activations.
template <WeightFormat kFormat, class Tiles>
class AmxManyRows {
 public:
  explicit AmxManyRows(const MatmulTile& tile) : tile_(tile) {}

  /// Rows m_begin to m_end - 1, at most kMaxRows.
  void Run(std::int64_t m_begin, std::int64_t m_end) {
    Tiles::configure(tiles_of_products(64));
    const std::int64_t num_row_tiles = (m_end - m_begin + kTileRows - 1) / kTileRows;
    const std::int64_t num_inputs = tile_.weight->cols;
    std::uint32_t* right = transposed_room(num_row_tiles * kRightWords);
    for (std::int64_t n = tile_.n_begin; n < tile_.n_end; n += kColumnsAbreast) {
      const std::int64_t n_end = std::min(n + kColumnsAbreast, tile_.n_end);
      for (std::int64_t begin = 0; begin < num_inputs; begin += kAmxPanelInputs) {
        PanelRange range{n, begin, std::min(begin + kAmxPanelInputs, num_inputs)};
        for (std::int64_t r = 0; r < num_row_tiles; ++r) {
          transpose_rows<kTileRows>(tile_, m_begin + r * kTileRows, begin / kSlice, range.end / kSlice,
                                    right + r * kRightWords);
        }
        for (float* sums = sums_; range.n < n_end; range.n += kPanelRows, sums += kMaxRows * kPanelRows) {
          PassPanel(range, n_end, num_row_tiles, right, sums);
        }
      }
      for (std::int64_t m = m_begin; m < m_end; ++m) {
        for (std::int64_t column = n; column < n_end; column += kTileRows) {
          const std::int64_t row = m - m_begin, in_panel = (column - n) % kPanelRows;
          const float* sums = sums_ + (column - n) / kPanelRows * kMaxRows * kPanelRows;
          store_outputs(tile_, m, column,
                        sums + row / kTileRows * kTileSums + in_panel * kTileRows + row % kTileRows,
                        kTileRows);
        }
      }
    }
    Tiles::release();
  }

 private:
  static constexpr std::int64_t kPanelRows = 32;
  static constexpr std::int64_t kColumnsAbreast = 256;
  static constexpr std::int64_t kRightWords = kPanelSlices * kSlicePairs * kTileRows;
  static constexpr std::int64_t kTileSums = kPanelRows * kTileRows;  ///< sums of 16 rows of activations
  using Panel = AmxPanel<kPanelRows>;

  /// Prefetches the codes of the next panel, a part at a time, while this one is multiplied: all at once they
  /// would take the fill buffers, through which operands come from the second-level cache.
  class CodesAhead {
   public:
    CodesAhead() = default;
    CodesAhead(const MatmulTile& tile, const PanelRange& range, std::int64_t n_end, std::int64_t num_parts)
        : row_bytes_(tile.weight->row_bytes()),
          piece_bytes_(code_bytes<kFormat>(range.end - range.begin)),
          row_(reinterpret_cast<const std::uint8_t*>(tile.weight->data) +
               (range.n + kPanelRows) * row_bytes_ + code_bytes<kFormat>(range.begin)),
          rows_left_(std::clamp<std::int64_t>(n_end - range.n - kPanelRows, 0, kPanelRows)),
          part_bytes_((rows_left_ * piece_bytes_ + num_parts - 1) / num_parts) {}
    HWY_INLINE void PrefetchPart() {
      for (std::int64_t bytes = 0; bytes < part_bytes_ && rows_left_ > 0; bytes += 64) {
        prefetch_second_level(row_ + at_);
        at_ += 64;
        if (at_ < piece_bytes_) continue;
        at_ = 0;
        row_ += row_bytes_;
        --rows_left_;
      }
    }

   private:
    std::int64_t row_bytes_ = 0, piece_bytes_ = 0;
    const std::uint8_t* row_ = nullptr;
    std::int64_t rows_left_ = 0, part_bytes_ = 0, at_ = 0;
  };

  HWY_INLINE void PassPanel(const PanelRange& range, std::int64_t n_end, std::int64_t num_row_tiles,
                            const std::uint32_t* right, float* sums) {
    const std::int64_t count = range.end - range.begin;
    const bool is_half = n_end - range.n <= kTileRows;
    for (std::int64_t i = 0; i < (is_half ? kTileRows : kPanelRows); ++i) {
      const RowCursor row = cursor_of<kFormat>(*tile_.weight, std::min(range.n + i, n_end - 1));
      weights_.Unpack(row, range.begin, count, panel_.values[i], panel_.scales + i, kPanelRows);
    }
    const std::int64_t num_blocks = count / kActivationGroup;
    const bool is_first = range.begin == 0;
    ahead_ = {tile_, range, n_end, num_blocks * ((num_row_tiles + 1) / 2)};
    std::int64_t r = 0;
    for (; r + 2 <= num_row_tiles; r += 2, right += 2 * kRightWords, sums += 2 * kTileSums) {
      if (is_half) {
        MultiplyPanel<1, 2>(num_blocks, is_first, right, sums);
      } else {
        MultiplyPanel<2, 2>(num_blocks, is_first, right, sums);
      }
    }
    if (r == num_row_tiles) return;
    if (is_half) {
      MultiplyPanel<1, 1>(num_blocks, is_first, right, sums);
    } else {
      MultiplyPanel<2, 1>(num_blocks, is_first, right, sums);
    }
  }

  /// kLeft tiles of the panel's rows times kRight of activations.
  template <int kLeft, int kRight>
  HWY_INLINE void MultiplyPanel(std::int64_t num_blocks, bool is_first, const std::uint32_t* right,
                                float* sums) {
    alignas(64) float block_sums[2][2][kTileRows * kTileRows];
    for (std::int64_t block = 0; block < num_blocks; ++block) {
      ahead_.PrefetchPart();
      Tiles::template zero<0>();
      if constexpr (kRight == 2) Tiles::template zero<1>();
      if constexpr (kLeft == 2) Tiles::template zero<2>();
      if constexpr (kLeft * kRight == 4) Tiles::template zero<3>();
      for (int s = 0; s < kSlicesPerBlock; ++s) {
        const std::int64_t slice = block * kSlicesPerBlock + s;
        const std::uint32_t* operand = right + slice * kSlicePairs * kTileRows;
        Tiles::template load<4>(panel_.values[0] + slice * kSlice, Panel::kRowBytes);
        Tiles::template load<6>(operand, 64);
        Tiles::template add_products<0, 4, 6>();
        if constexpr (kRight == 2) {
          Tiles::template load<7>(operand + kRightWords, 64);
          Tiles::template add_products<1, 4, 7>();
        }
        if constexpr (kLeft == 2) {
          Tiles::template load<5>(panel_.values[kTileRows] + slice * kSlice, Panel::kRowBytes);
          Tiles::template add_products<2, 5, 6>();
        }
        if constexpr (kLeft * kRight == 4) Tiles::template add_products<3, 5, 7>();
      }
      Tiles::template store<0>(block_sums[0][0], 64);
      if constexpr (kRight == 2) Tiles::template store<1>(block_sums[0][1], 64);
      if constexpr (kLeft == 2) Tiles::template store<2>(block_sums[1][0], 64);
      if constexpr (kLeft * kRight == 4) Tiles::template store<3>(block_sums[1][1], 64);
      const FloatTag d;
      for (std::int64_t i = 0; i < kLeft * kTileRows; ++i) {
        const auto scale = hn::Set(d, panel_.scales[block * kPanelRows + i]);
        for (std::int64_t r = 0; r < kRight; ++r) {
          float* to = sums + r * kTileSums + i * kTileRows;
          const auto before = is_first && block == 0 ? hn::Zero(d) : hn::Load(d, to);
          const float* added = block_sums[i / kTileRows][r] + i % kTileRows * kTileRows;
          hn::Store(hn::MulAdd(hn::Load(d, added), scale, before), d, to);
        }
      }
    }
  }

  const MatmulTile& tile_;
  const AmxWeights<kFormat> weights_;
  CodesAhead ahead_;
  Panel panel_;
  alignas(64) float sums_[kMaxRows * kColumnsAbreast];  ///< [panel][row tile][32 weight rows][16]
};

}  // namespace baleen::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // HWY_TARGET == HWY_AVX3

#endif  // BALEEN_OPS_MATMUL_AMX_MANY_ROWS_INL_H_
