// SIMD tile kernel. Registers hold M x N accumulators; per block of inputs the N rows' weights are unpacked
// once and multiplied with M rows of activations. Every (m, n) accumulator sees the same products in the same
// order for every M and N, so tile shapes are free.
//
// Shapes: AVX-512 has 32 registers: 4 x 4 accumulators leave sixteen for unpacked weights, scales and activations; with 6
// rows the compiler spills accumulators (prefill of the bundled model 5.3 against 6.6 thousand tokens/s, of bench-1b 216
// against 229). AVX2 has 16: 6 x 2. Rows share one unpacking (2 to 5 instructions a vector); a single row (decode) needs 8
// columns so that 8 independent chains cover the latency of 4 cycles at 2 a cycle.

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
#include "ops/matmul/tile_output-inl.h"
#include "ops/matmul/unpack-inl.h"

HWY_BEFORE_NAMESPACE();
namespace baleen::HWY_NAMESPACE {
namespace {

constexpr bool kManyRegisters = kLanes == 16 || HWY_ARCH_ARM_A64;
constexpr int kMaxTileRows = kManyRegisters ? 4 : 6;

template <WeightFormat kFormat>
constexpr int tile_columns(int tile_rows) {
  // A single row waits for memory: 4 columns are streams enough, and 8 ask too far ahead of wide rows (BF16: 43 against
  // 38 GB/s); FP4's narrow rows and longer unpacking want 8.
  if (tile_rows == 1) return kFormat == WeightFormat::kFp4 ? 8 : 4;
  if (kManyRegisters) return tile_rows == 2 ? 8 : 4;
  return tile_rows <= 3 ? 4 : 2;
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

/// FP4's scale multiplies the sum over a block of inputs (8 vectors) instead of every weight. FP8 has half as
/// many vectors to a block, and many rows would need twice the accumulators: there scaling the weights wins
/// (prefill 165 against 110 GFLOP/s on one thread of a Zen 5), as it would not for FP4 (decode 25 against 28
/// GB/s).
template <WeightFormat kFormat>
constexpr bool kScalesSum = kFormat == WeightFormat::kFp4;

/// Adds the products of part kPart and the parts after it to `sums`.
template <WeightFormat kFormat, int kRows, int kColumns, int kPart>
HWY_INLINE void multiply_parts(const RowBlock<kFormat> (&weights)[kColumns], const float* const (&x)[kRows],
                               std::int64_t at, FloatVec (&sums)[kRows][kColumns]) {
  const FloatTag d;
  FloatVec w[kColumns];
  for (int n = 0; n < kColumns; ++n) w[n] = weights[n].template Get<kPart>();
  for (int m = 0; m < kRows; ++m) {
    const auto v = hn::Load(d, x[m] + at + kPart * kLanes);
    for (int n = 0; n < kColumns; ++n) {
      // The first product of a scaled block begins a sum of its own.
      sums[m][n] = kScalesSum<kFormat> && kPart == 0 ? hn::Mul(v, w[n]) : hn::MulAdd(v, w[n], sums[m][n]);
    }
  }
  if constexpr (kPart + 1 < packed_per_lane(kFormat)) {
    multiply_parts<kFormat, kRows, kColumns, kPart + 1>(weights, x, at, sums);
  }
}

/// Inputs [begin, end) of a product; accumulators wait in `carried` between one range and the next.
struct InputRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  float* carried = nullptr;
};

template <WeightFormat kFormat, int kRows>
void tile_row(const MatmulTile& tile, std::int64_t m_begin, std::int64_t n_begin, const InputRange& inputs) {
  constexpr int kColumns = tile_columns<kFormat>(kRows);
  constexpr std::int64_t kStep = packed_per_lane(kFormat) * kLanes;
  const FloatTag d;
  const std::int64_t num_inputs = tile.weight->cols;
  const float* x[kRows];
  for (int m = 0; m < kRows; ++m) {
    const std::int64_t row = tile.row_index == nullptr ? m_begin + m : tile.row_index[m_begin + m];
    x[m] = tile.packed + row * num_inputs;
  }
  RowCursor rows[kColumns];
  for (int n = 0; n < kColumns; ++n) {  // past the last column: repeat it, and do not store
    rows[n] = cursor_of<kFormat>(*tile.weight, std::min(n_begin + n, tile.n_end - 1));
  }
  FloatVec sums[kRows][kColumns];
  for (int m = 0; m < kRows; ++m) {
    for (int n = 0; n < kColumns; ++n) {
      sums[m][n] =
          inputs.begin == 0 ? hn::Zero(d) : hn::Load(d, inputs.carried + (m * kColumns + n) * kLanes);
    }
  }
  // Few rows of activations leave only memory to wait for. Hardware prefetchers stop at every 4 KB page,
  // which is a row or two; asking for the next columns' weights while these pass keeps memory busy across
  // them (one thread of a Zen 5: decode from 54% to 77% of the read bandwidth).
  constexpr bool kPrefetch = kRows <= 4;
  const std::int64_t next_columns = kColumns * tile.weight->row_bytes();
  for (std::int64_t k = inputs.begin; k < inputs.end; k += kStep) {
    RowBlock<kFormat> weights[kColumns];
    for (int n = 0; n < kColumns; ++n) {
      weights[n].Load(rows[n], k);
      if constexpr (kPrefetch) hwy::Prefetch(rows[n].codes + next_columns + k / kStep * 4 * kLanes);
    }
    if constexpr (kScalesSum<kFormat>) {
      FloatVec block_sums[kRows][kColumns];
      multiply_parts<kFormat, kRows, kColumns, 0>(weights, x, k, block_sums);
      for (int m = 0; m < kRows; ++m) {
        for (int n = 0; n < kColumns; ++n)
          sums[m][n] = hn::MulAdd(block_sums[m][n], weights[n].scale, sums[m][n]);
      }
    } else {
      multiply_parts<kFormat, kRows, kColumns, 0>(weights, x, k, sums);
    }
  }
  if (inputs.end < num_inputs) {
    for (int m = 0; m < kRows; ++m) {
      for (int n = 0; n < kColumns; ++n)
        hn::Store(sums[m][n], d, inputs.carried + (m * kColumns + n) * kLanes);
    }
    return;
  }
  for (int m = 0; m < kRows; ++m) {
    for (int n = 0; n < kColumns; n += 4) {
      const auto column = [&](int i) HWY_ATTR { return sums[m][std::min(n + i, kColumns - 1)]; };
      store_columns(tile, m_begin + m, n_begin + n, std::min(kColumns - n, 4), column(0), column(1),
                    column(2), column(3));
    }
  }
}

template <WeightFormat kFormat, int kRows>
void tile_rows(const MatmulTile& tile, std::int64_t m_begin) {
  const InputRange all{0, tile.weight->cols, nullptr};
  for (std::int64_t n = tile.n_begin; n < tile.n_end; n += tile_columns<kFormat>(kRows)) {
    tile_row<kFormat, kRows>(tile, m_begin, n, all);
  }
}

/// Many rows: a tile's rows of activations, 1024 inputs at a time (16 to 24 KB), stay in the first-level cache while 32
/// columns pass; read again from the second level for every four columns they would cost 32 bytes a cycle or more,
/// about all it has. Between input ranges the columns' accumulators wait in `carried` (at most 12 KB), which costs 1
/// load and store in 64.
template <WeightFormat kFormat>
void tile_many_rows(const MatmulTile& tile, std::int64_t m_begin) {
  constexpr std::int64_t kInputsPerRange = 1024;
  constexpr std::int64_t kColumnsPerPass = 32;
  constexpr int kColumns = tile_columns<kFormat>(kMaxTileRows);
  alignas(64) float carried[kColumnsPerPass * kMaxTileRows * kLanes];
  for (std::int64_t pass = tile.n_begin; pass < tile.n_end; pass += kColumnsPerPass) {
    const std::int64_t pass_end = std::min(pass + kColumnsPerPass, tile.n_end);
    for (std::int64_t k = 0; k < tile.weight->cols; k += kInputsPerRange) {
      for (std::int64_t n = pass; n < pass_end; n += kColumns) {
        tile_row<kFormat, kMaxTileRows>(tile, m_begin, n,
                                        {k, std::min(k + kInputsPerRange, tile.weight->cols),
                                         carried + (n - pass) * kMaxTileRows * kLanes});
      }
    }
  }
}

template <WeightFormat kFormat>
void tile_of_format(const MatmulTile& tile) {
  std::int64_t m = 0;
  for (; tile.num_rows - m >= kMaxTileRows; m += kMaxTileRows) tile_many_rows<kFormat>(tile, m);
  switch (tile.num_rows - m) {
    case 1:
      return tile_rows<kFormat, 1>(tile, m);
    case 2:
      return tile_rows<kFormat, 2>(tile, m);
    case 3:
      return tile_rows<kFormat, 3>(tile, m);
    case 4:
      return tile_rows<kFormat, 4>(tile, m);
    case 5:
      return tile_rows<kFormat, 5>(tile, m);
    default:
      return;
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
