// Up to 16 rows of activations times weights by AMX. Included once per instruction set (Highway).

#if defined(BALEEN_OPS_MATMUL_AMX_FEW_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BALEEN_OPS_MATMUL_AMX_FEW_ROWS_INL_H_
#undef BALEEN_OPS_MATMUL_AMX_FEW_ROWS_INL_H_
#else
#define BALEEN_OPS_MATMUL_AMX_FEW_ROWS_INL_H_
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

/// Up to kColumns rows of activations, 1, 4, 8 or 16. Decoding waits for weights, and these are one stream of
/// bytes: while 16 weight rows are multiplied, the next 16, which follow in memory, are prefetched in order.
/// (Of the first 16, which nothing precedes, the next inputs.)
/// A panel is unpacked while that before it is multiplied, a weight row and a slice at a time: the processor
/// executes in order what is further apart than its window.
template <WeightFormat kFormat, class Tiles, std::int64_t kColumns>
class AmxFewRows {
 public:
  explicit AmxFewRows(const MatmulTile& tile) : tile_(tile) {
    if constexpr (kColumns > 1) {
      const std::int64_t num_slices = tile.weight->cols / kSlice;
      right_ = transposed_room(num_slices * kSlicePairs * kColumns);
      transpose_rows<kColumns>(tile, 0, 0, num_slices, right_);
    }
  }

  void Run() {
    Tiles::configure(tiles_of_products(4 * kColumns));
    const std::int64_t num_inputs = tile_.weight->cols;
    for (std::int64_t i = 0; i < kTileRows; ++i) {
      prefetch_inputs((tile_.n_begin + i) * num_inputs, std::min(kAmxPanelInputs, num_inputs));
    }
    const Panel* before = nullptr;
    int next = 0;
    for (std::int64_t n = tile_.n_begin; n < tile_.n_end; n += kTileRows) {
      for (std::int64_t begin = 0; begin < num_inputs; begin += kAmxPanelInputs) {
        Panel& panel = panels_[next];
        next ^= 1;
        panel.range = {n, begin, std::min(begin + kAmxPanelInputs, num_inputs)};
        for (std::int64_t four = 0; four < kTileRows; four += 4) {
          Fill(four, panel);
          Multiply<0>(before, four / 4);
          Fill(four + 1, panel);
          Multiply<1>(before, four / 4);
          Fill(four + 2, panel);
          Multiply<2>(before, four / 4);
          Fill(four + 3, panel);
          Multiply<3>(before, four / 4);
        }
        if (before != nullptr) AddBlocks(*before);
        before = &panel;
      }
    }
    for (std::int64_t slice = 0; slice < kSlicesPerBlock; ++slice) {
      Multiply<0>(before, slice);
      Multiply<1>(before, slice);
      Multiply<2>(before, slice);
      Multiply<3>(before, slice);
    }
    AddBlocks(*before);
    Tiles::release();
  }

 private:
  struct Panel : AmxPanel<kTileRows> {
    PanelRange range;
    [[nodiscard]] std::int64_t num_blocks() const { return (range.end - range.begin) / kActivationGroup; }
  };
  static_assert(kPanelBlocks == 4 && kPanelBlocks * kSlicesPerBlock == kTileRows);

  HWY_INLINE void Fill(std::int64_t i, Panel& panel) {
    const PanelRange& range = panel.range;
    const RowCursor row = cursor_of<kFormat>(*tile_.weight, std::min(range.n + i, tile_.n_end - 1));
    const std::int64_t count = range.end - range.begin;
    const std::int64_t num_inputs = tile_.weight->cols;
    if (range.n + kTileRows < tile_.n_end) {  // the next rows, one after another
      prefetch_inputs((range.n + kTileRows) * num_inputs + range.begin * kTileRows + i * count, count);
    }
    if (range.n == tile_.n_begin) {  // what follows in this row
      prefetch_inputs((range.n + i) * num_inputs + range.end, std::min(count, num_inputs - range.end));
    }
    weights_.Unpack(row, range.begin, count, panel.values[i], panel.scales + i, kTileRows);
  }

  /// `first`: counted from the matrix's first row on.
  HWY_INLINE void prefetch_inputs(std::int64_t first, std::int64_t count) const {
    const std::byte* at = tile_.weight->data + code_bytes<kFormat>(first);
    for (const std::byte* end = at + code_bytes<kFormat>(count); at < end; at += 64) {
      prefetch_second_level(at);
    }
  }

  /// Adds a slice of block kBlock of the panel.
  template <int kBlock>
  HWY_INLINE void Multiply(const Panel* panel, std::int64_t slice) {
    if (panel == nullptr || kBlock >= panel->num_blocks()) return;
    if (slice == 0) Tiles::template zero<kBlock>();
    const std::int64_t in_panel = kBlock * kSlicesPerBlock + slice;
    Tiles::template load<4>(panel->values[0] + in_panel * kSlice, Panel::kRowBytes);
    Tiles::template load<6>(RightOperand(panel->range.begin / kSlice + in_panel), 4 * kColumns);
    Tiles::template add_products<kBlock, 4, 6>();
  }

  [[nodiscard]] HWY_INLINE const std::uint32_t* RightOperand(std::int64_t slice) const {
    if constexpr (kColumns == 1) return slice_at(packed_row(tile_, 0), slice);
    return right_ + slice * kSlicePairs * kColumns;
  }

  /// Sums of outputs, [16 weight rows, kColumns], lie one after another: kColumns vectors.
  HWY_INLINE void AddBlocks(const Panel& panel) {
    const FloatTag d;
    const hn::RebindToSigned<FloatTag> di;
    alignas(64) float block_sums[kPanelBlocks][kTileRows * kColumns];
    const std::int64_t num_blocks = panel.num_blocks();
    Tiles::template store<0>(block_sums[0], 4 * kColumns);
    if (num_blocks > 1) Tiles::template store<1>(block_sums[1], 4 * kColumns);
    if (num_blocks > 2) Tiles::template store<2>(block_sums[2], 4 * kColumns);
    if (num_blocks > 3) Tiles::template store<3>(block_sums[3], 4 * kColumns);
    constexpr int kShift = kColumns == 1 ? 0 : kColumns == 4 ? 2 : kColumns == 8 ? 3 : 4;
    for (std::int64_t v = 0; v < kColumns; ++v) {
      const auto first = hn::Set(di, static_cast<std::int32_t>(v * kTileRows / kColumns));
      const auto rows = hn::IndicesFromVec(d, hn::Add(hn::ShiftRight<kShift>(hn::Iota(di, 0)), first));
      auto sum = panel.range.begin == 0 ? hn::Zero(d) : hn::Load(d, sums_ + v * kLanes);
      for (std::int64_t block = 0; block < num_blocks; ++block) {
        const auto scale = hn::TableLookupLanes(hn::Load(d, panel.scales + block * kTileRows), rows);
        sum = hn::MulAdd(hn::Load(d, block_sums[block] + v * kLanes), scale, sum);
      }
      hn::Store(sum, d, sums_ + v * kLanes);
    }
    if (panel.range.end < tile_.weight->cols) return;
    for (std::int64_t m = 0; m < tile_.num_rows; ++m) {
      store_outputs(tile_, m, panel.range.n, sums_ + m, kColumns);
    }
  }

  const MatmulTile& tile_;
  const AmxWeights<kFormat> weights_;
  std::uint32_t* right_ = nullptr;
  Panel panels_[2];
  alignas(64) float sums_[kTileRows * kColumns];
};

}  // namespace baleen::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // HWY_TARGET == HWY_AVX3

#endif  // BALEEN_OPS_MATMUL_AMX_FEW_ROWS_INL_H_
