// SIMD tile kernels. Every (m, n) accumulator sees the same products in the same order for every M and N, so tile shapes
// are free. Up to four rows unpack weights in registers, for each of them once; more rows share panels of unpacked
// weights (panel-inl.h). FP4 weights and FP8 activations meet as integers (integer_fp4-inl.h), all else in float32.

#include "ops/matmul/matmul.h"

#include <algorithm>
#include <cstring>

#include <hwy/cache_control.h>

#include "base/check.h"
#include "numeric/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/matmul/matmul_cpu.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "numeric/rounding-inl.h"
#include "ops/matmul/integer_fp4-inl.h"
#include "ops/matmul/panel-inl.h"
#include "ops/matmul/tile_output-inl.h"
#include "ops/matmul/unpack-inl.h"

HWY_BEFORE_NAMESPACE();
namespace baleen::HWY_NAMESPACE {
namespace {

constexpr bool kManyRegisters = kLanes == 16 || HWY_ARCH_ARM_A64;

/// Inputs that share a scale, whose products have a sum of their own for the scale to multiply; 0: there are no scales.
template <WeightFormat kFormat>
constexpr std::int64_t kScaledInputs =
    kFormat == WeightFormat::kFp4   ? 8 * kLanes  // a scale for every four lanes
    : kFormat == WeightFormat::kFp8 ? kWeightBlock
                                    : 0;

/// Weight rows that few rows of activations meet at a time.
template <WeightFormat kFormat>
constexpr int few_rows_columns(int num_rows) {
  // A single row waits for memory: 4 columns are streams enough, and 8 ask too far ahead of wide rows (BF16: 43 against
  // 38 GB/s); FP4's narrow rows and longer unpacking want 8.
  if (num_rows == 1) return kFormat == WeightFormat::kFp4 ? 8 : 4;
  if (kManyRegisters) return num_rows == 2 ? 8 : 4;
  return num_rows == 2 || (num_rows == 3 && kScaledInputs<kFormat> == 0) ? 4 : 2;
}

template <WeightFormat kFormat>
void pack_row(const float* x, std::int64_t num_inputs, ActivationRounding rounding, float* packed) {
  if (kFormat == WeightFormat::kF32 && rounding == ActivationRounding::kNone) {  // already in order
    std::memcpy(packed, x, static_cast<std::size_t>(num_inputs) * sizeof(float));
    return;
  }
  const FloatTag d;
  using Block = RowBlock<kFormat>;
  constexpr std::int64_t kParts = packed_per_lane(kFormat);
  static_assert(kParts * kLanes <= kActivationBlock && kActivationBlock % (kParts * kLanes) == 0);
  hn::Vec<hn::RebindToSigned<FloatTag>> order[kParts];
  for (std::int64_t part = 0; part < kParts; ++part) {
    alignas(64) std::int32_t inputs[kLanes];
    for (std::int64_t lane = 0; lane < kLanes; ++lane) {
      inputs[lane] = static_cast<std::int32_t>(Block::input_of(part, lane));
    }
    order[part] = hn::Load(hn::RebindToSigned<FloatTag>(), inputs);
  }
  const auto factor = hn::Set(d, Block::kActivationFactor);
  alignas(64) float block[kActivationBlock];
  for (std::int64_t begin = 0; begin < num_inputs; begin += kActivationBlock) {
    const float* from = x + begin;
    if (rounding == ActivationRounding::kFp8) {
      simulate_fp8_block(d, from, block, kActivationBlock);
      from = block;
    }
    for (std::int64_t at = 0; at < kActivationBlock; at += kParts * kLanes) {
      for (std::int64_t part = 0; part < kParts; ++part) {
        const auto values = hn::GatherIndex(d, from + at, order[part]);
        hn::Store(hn::Mul(values, factor), d, packed + begin + at + part * kLanes);
      }
    }
  }
}

/// Adds the products of part kPart and the parts after it to the sums of columns kFirst to kFirst + kCount - 1.
template <int kFirst, int kCount, int kPart = 0, WeightFormat kFormat, int kColumns, int kRows>
HWY_INLINE void multiply_parts(const RowBlock<kFormat> (&weights)[kColumns], const float* const (&x)[kRows],
                               std::int64_t at, FloatVec (&sums)[kColumns][kRows]) {
  const FloatTag d;
  FloatVec w[kCount];
  for (int n = 0; n < kCount; ++n) w[n] = weights[kFirst + n].template Get<kPart>();
  for (int m = 0; m < kRows; ++m) {
    const auto v = hn::Load(d, x[m] + at + kPart * kLanes);
    for (int n = 0; n < kCount; ++n) sums[kFirst + n][m] = hn::MulAdd(v, w[n], sums[kFirst + n][m]);
  }
  if constexpr (kPart + 1 < packed_per_lane(kFormat)) {
    multiply_parts<kFirst, kCount, kPart + 1>(weights, x, at, sums);
  }
}

/// All parts of all columns. Column by column needs fewest registers; side by side they share loads of activations.
template <int kFirst = 0, WeightFormat kFormat, int kColumns, int kRows>
HWY_INLINE void multiply_columns(const RowBlock<kFormat> (&weights)[kColumns], const float* const (&x)[kRows],
                                 std::int64_t at, FloatVec (&sums)[kColumns][kRows]) {
  constexpr int kCount = (kManyRegisters && kRows > 1) || kRows > 2 ? kColumns : 1;
  multiply_parts<kFirst, kCount>(weights, x, at, sums);
  if constexpr (kFirst + kCount < kColumns) multiply_columns<kFirst + kCount>(weights, x, at, sums);
}

/// Weight rows n to n + kColumns - 1 times kRows rows of activations.
template <WeightFormat kFormat, int kRows>
void few_rows_columns_tile(const MatmulTile& tile, const float* const (&x)[kRows], std::int64_t n_begin) {
  constexpr int kColumns = few_rows_columns<kFormat>(kRows);
  constexpr std::int64_t kStep = packed_per_lane(kFormat) * kLanes;
  constexpr bool kScaled = kScaledInputs<kFormat> != 0;
  constexpr std::int64_t kBlock = kScaled ? kScaledInputs<kFormat> : kStep;
  const FloatTag d;
  RowCursor rows[kColumns];
  FloatVec sums[kColumns][kRows];
  for (int n = 0; n < kColumns; ++n) {  // past the last column: repeat it, and do not store
    rows[n] = cursor_of<kFormat>(*tile.weight, std::min(n_begin + n, tile.n_end - 1));
    for (int m = 0; m < kRows; ++m) sums[n][m] = hn::Zero(d);
  }
  // Few rows of activations leave only memory to wait for. Hardware prefetchers stop at every 4 KB page,
  // which is a row or two; asking for the next columns' weights while these pass keeps memory busy across
  // them (one thread of a Zen 5: decode from 54% to 77% of the read bandwidth).
  const std::int64_t next_columns = kColumns * tile.weight->row_bytes();
  for (std::int64_t k = 0; k < tile.weight->cols; k += kBlock) {
    FloatVec block_sums[kColumns][kRows];
    for (int n = 0; n < kColumns; ++n) {
      for (int m = 0; m < kRows; ++m) block_sums[n][m] = hn::Zero(d);
    }
    for (std::int64_t at = k; at < k + kBlock; at += kStep) {
      RowBlock<kFormat> weights[kColumns];
      for (int n = 0; n < kColumns; ++n) {
        weights[n].Load(rows[n], at);
        hwy::Prefetch(rows[n].codes + next_columns + at / kStep * 4 * kLanes);
      }
      if constexpr (!kScaled) {
        multiply_columns(weights, x, at, sums);
      } else {
        multiply_columns(weights, x, at, block_sums);
        if (at + kStep < k + kBlock) continue;
        for (int n = 0; n < kColumns; ++n) {
          for (int m = 0; m < kRows; ++m)
            sums[n][m] = hn::MulAdd(block_sums[n][m], weights[n].scale, sums[n][m]);
        }
      }
    }
  }
  for (int m = 0; m < kRows; ++m) {
    for (int n = 0; n < kColumns; n += 4) {
      const auto column = [&](int i) HWY_ATTR { return sums[std::min(n + i, kColumns - 1)][m]; };
      store_columns(tile, m, n_begin + n, std::min(kColumns - n, 4), column(0), column(1), column(2),
                    column(3));
    }
  }
}

template <WeightFormat kFormat, int kRows>
void few_rows(const MatmulTile& tile) {
  const float* x[kRows];
  for (int m = 0; m < kRows; ++m) x[m] = tile.packed + packed_row(tile, m) * tile.weight->cols;
  for (std::int64_t n = tile.n_begin; n < tile.n_end; n += few_rows_columns<kFormat>(kRows)) {
    few_rows_columns_tile<kFormat, kRows>(tile, x, n);
  }
}

/// Float32 products of many rows (panel-inl.h). A panel's weights are 16 KB. Accumulators: 3 x 4 of 16 registers, 6 x 4 of
/// 32; the sums over all blocks of a scaled format wait in memory meanwhile.
template <WeightFormat kFormat>
struct FloatProducts {
  static constexpr std::int64_t kScaled = kScaledInputs<kFormat>;
  static constexpr int kRows = kManyRegisters && kScaled == 0 ? 4 : 3;

  struct Panel {
    alignas(64) float values[kPanelColumns][kPanelInputs];
    alignas(64) float scales[kPanelColumns][kScaled == 0 ? 1 : kPanelInputs / kScaled * kLanes];
  };

  static HWY_INLINE void fill(const MatmulTile& tile, const PanelRange& range, Panel& panel) {
    constexpr std::int64_t kStep = packed_per_lane(kFormat) * kLanes;
    for (std::int64_t c = 0; c < kPanelColumns; ++c) {
      const RowCursor row = cursor_of<kFormat>(*tile.weight, std::min(range.n + c, tile.n_end - 1));
      for (std::int64_t k = range.begin; k < range.end; k += kStep) {
        RowBlock<kFormat> weights;
        weights.Load(row, k);
        store_parts(weights, panel.values[c] + k - range.begin);
        if constexpr (kScaled != 0) {
          hn::Store(weights.scale, FloatTag(), panel.scales[c] + (k - range.begin) / kScaled * kLanes);
        }
      }
    }
  }

  template <int kTileRows>
  static HWY_INLINE void multiply(const float* const (&x)[kTileRows], std::int64_t num_inputs,
                                  const Panel& panel, FloatVec (&sums)[kTileRows][kPanelColumns]) {
    const FloatTag d;
    constexpr std::int64_t kMostInputs = kScaled == 0 ? kPanelInputs : kScaled;
    for (std::int64_t k = 0; k < num_inputs; k += kMostInputs) {
      FloatVec block_sums[kTileRows][kPanelColumns];
      for (int m = 0; m < kTileRows; ++m) {
        for (int c = 0; c < kPanelColumns; ++c) block_sums[m][c] = kScaled == 0 ? sums[m][c] : hn::Zero(d);
      }
      const std::int64_t end = std::min(k + kMostInputs, num_inputs);
      for (std::int64_t i = k; i < end; i += kLanes) {
        FloatVec v[kTileRows];
        for (int m = 0; m < kTileRows; ++m) v[m] = hn::Load(d, x[m] + i);
        for (int c = 0; c < kPanelColumns; ++c) {
          const FloatVec w = in_register(hn::Load(d, panel.values[c] + i));
          for (int m = 0; m < kTileRows; ++m) block_sums[m][c] = hn::MulAdd(v[m], w, block_sums[m][c]);
        }
      }
      for (int m = 0; m < kTileRows; ++m) {
        for (int c = 0; c < kPanelColumns; ++c) {
          if constexpr (kScaled == 0) {
            sums[m][c] = block_sums[m][c];
          } else {
            const FloatVec scale = hn::Load(d, panel.scales[c] + k / kScaled * kLanes);
            sums[m][c] = hn::MulAdd(block_sums[m][c], scale, sums[m][c]);
          }
        }
      }
    }
  }

 private:
  template <int kPart = 0>
  static HWY_INLINE void store_parts(const RowBlock<kFormat>& weights, float* to) {
    hn::Store(weights.template Get<kPart>(), FloatTag(), to + kPart * kLanes);
    if constexpr (kPart + 1 < packed_per_lane(kFormat)) store_parts<kPart + 1>(weights, to);
  }
};

template <WeightFormat kFormat>
void tile_of_format(const MatmulTile& tile) {
  switch (tile.num_rows) {
    case 0:
      return;
    case 1:
      return few_rows<kFormat, 1>(tile);
    case 2:
      return few_rows<kFormat, 2>(tile);
    case 3:
      return few_rows<kFormat, 3>(tile);
    case 4:
      return few_rows<kFormat, 4>(tile);
    default:
      return panel_tile<FloatProducts<kFormat>>(tile);
  }
}

}  // namespace

void matmul_tile_cpu(const MatmulTile& tile) {
  switch (tile.weight->format) {
    case WeightFormat::kF32:
      return tile_of_format<WeightFormat::kF32>(tile);
    case WeightFormat::kBF16:
      return tile_of_format<WeightFormat::kBF16>(tile);
    case WeightFormat::kFp8:
      return tile_of_format<WeightFormat::kFp8>(tile);
    case WeightFormat::kFp4:
      if (kIntegerFp4 && tile.rounding == ActivationRounding::kFp8) return integer_tile(tile);
      return tile_of_format<WeightFormat::kFp4>(tile);
  }
}

void pack_activations_cpu(const float* x, std::int64_t num_inputs, WeightFormat format,
                          ActivationRounding rounding, float* packed) {
  switch (format) {
    case WeightFormat::kF32:
      return pack_row<WeightFormat::kF32>(x, num_inputs, rounding, packed);
    case WeightFormat::kBF16:
      return pack_row<WeightFormat::kBF16>(x, num_inputs, rounding, packed);
    case WeightFormat::kFp8:
      return pack_row<WeightFormat::kFp8>(x, num_inputs, rounding, packed);
    case WeightFormat::kFp4:
      if (kIntegerFp4 && rounding == ActivationRounding::kFp8) return pack_integer_row(x, num_inputs, packed);
      return pack_row<WeightFormat::kFp4>(x, num_inputs, rounding, packed);
  }
}

}  // namespace baleen::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace baleen {

HWY_EXPORT(matmul_tile_cpu);
HWY_EXPORT(pack_activations_cpu);

void matmul_tile(const MatmulTile& tile) { HWY_DYNAMIC_DISPATCH(matmul_tile_cpu)(tile); }

void pack_activations(std::span<const float> x, WeightFormat format, ActivationRounding rounding,
                      float* packed) {
  BALEEN_DCHECK(x.size() % kActivationBlock == 0);
  HWY_DYNAMIC_DISPATCH(pack_activations_cpu)
  (x.data(), static_cast<std::int64_t>(x.size()), format, rounding, packed);
}

}  // namespace baleen
#endif  // HWY_ONCE
