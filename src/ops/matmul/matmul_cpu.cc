// SIMD tile kernels. Every (m, n) accumulator sees the same products in the same order for every M and N, so
// tile shapes are free (tile_rows-inl.h). FP8 activations meet FP4 weights as integers (integer_fp4-inl.h),
// or FP4, NVFP4 and FP8 weights as BF16 (amx_products-inl.h, bf16_dots-inl.h); activations of 8 bits meet
// those of their variant (int8_products-inl.h); all else is float32.

#include "ops/matmul/matmul.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "numeric/bf16_dots.h"
#include "numeric/bf16_tiles.h"
#include "numeric/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/matmul/matmul_cpu.cc"
#include <hwy/foreach_target.h>  // IWYU pragma: keep
#include <hwy/highway.h>

#include "numeric/rounding-inl.h"
#include "ops/matmul/amx_products-inl.h"
#include "ops/matmul/bf16_dots-inl.h"
#include "ops/matmul/int8_products-inl.h"
#include "ops/matmul/integer_fp4-inl.h"
#include "ops/matmul/tile_output-inl.h"
#include "ops/matmul/tile_rows-inl.h"
#include "ops/matmul/unpack-inl.h"

HWY_BEFORE_NAMESPACE();
namespace baleen::HWY_NAMESPACE {
namespace {

/// Inputs whose products have a sum of their own, which the scale that they share multiplies: FP4, Q8 and FP8
/// in small blocks have scales for every few lanes. Formats without scales sum blocks, too: then a block's
/// chain of multiply-adds need not wait for that before it.
template <WeightFormat kFormat>
constexpr std::int64_t kSummedInputs = kFormat == WeightFormat::kFp4  ? 8 * kLanes
                                       : kFormat == WeightFormat::kQ8 ? 4 * kLanes
                                       : kFormat == WeightFormat::kFp8x32
                                           ? std::max<std::int64_t>(32, 4 * kLanes)
                                           : kWeightBlock;

/// Adds a block's sum to the accumulator.
template <WeightFormat kFormat>
HWY_INLINE FloatVec add_block([[maybe_unused]] const RowBlock<kFormat>& weights, FloatVec block_sum,
                              FloatVec sum) {
  if constexpr (has_scales(kFormat)) return hn::MulAdd(block_sum, weights.scale, sum);
  return hn::Add(sum, block_sum);
}

/// Packed activations, of which those too small for the format's unpacked weights are zero (see RowBlock).
template <WeightFormat kFormat>
HWY_INLINE FloatVec without_tiny_activations(FloatVec packed) {
  if constexpr (RowBlock<kFormat>::kActivationFactor == 1.0F) {
    return packed;
  } else {
    const auto smallest = hn::Set(FloatTag(), RowBlock<kFormat>::kSmallestActivation);
    return hn::IfThenZeroElse(hn::Lt(hn::Abs(packed), smallest), packed);
  }
}

/// Stores a load's inputs, rounded to BF16 where `to_bf16` says so, in the order in which its weights are
/// unpacked.
template <WeightFormat kFormat>
HWY_INLINE void pack_load(const float* from, bool to_bf16, float* to) {
  const FloatTag d;
  constexpr int kParts = static_cast<int>(packed_per_lane(kFormat));
  FloatVec inputs[kParts];
  RowBlock<kFormat>::LoadInputs(from, inputs);
  const auto factor = hn::Set(d, RowBlock<kFormat>::kActivationFactor);
  for (int part = 0; part < kParts; ++part) {
    const FloatVec values = to_bf16 ? round_bf16_simd(d, inputs[part]) : inputs[part];
    hn::Store(without_tiny_activations<kFormat>(hn::Mul(values, factor)), d, to + part * kLanes);
  }
}

template <WeightFormat kFormat>
void pack_floats(const float* x, std::int64_t num_inputs, ActivationRounding rounding, float* packed) {
  if (kFormat == WeightFormat::kF32 && rounding == ActivationRounding::kNone) {  // already in order
    std::memcpy(packed, x, static_cast<std::size_t>(num_inputs) * sizeof(float));
    return;
  }
  constexpr std::int64_t kLoadInputs = packed_per_lane(kFormat) * kLanes;
  static_assert(kLoadInputs <= kActivationGroup && kActivationGroup % kLoadInputs == 0);
  alignas(64) float block[kActivationGroup];
  for (std::int64_t begin = 0; begin < num_inputs; begin += kActivationGroup) {
    const float* from = x + begin;
    if (const std::int64_t group = fp8_group(rounding); group > 0) {
      simulate_fp8_groups(FloatTag(), from, block, kActivationGroup, group);
      from = block;
    }
    for (std::int64_t at = 0; at < kActivationGroup; at += kLoadInputs) {
      pack_load<kFormat>(from + at, rounding == ActivationRounding::kBf16, packed + begin + at);
    }
  }
}

/// Products in float32, each with the scale's part that RowBlock leaves out missing.
template <WeightFormat kFormat>
struct FloatProducts : LaneSums {
  static constexpr std::int64_t kSummed = kSummedInputs<kFormat>;
  static constexpr std::int64_t kStep = packed_per_lane(kFormat) * kLanes;

  static void pack_row(const float* x, std::int64_t num_inputs, ActivationRounding rounding, float* packed) {
    pack_floats<kFormat>(x, num_inputs, rounding, packed);
  }

  /// Few rows, of which x are the packed inputs: outputs n of each, before lanes are added up. Weights are
  /// unpacked once, in registers.
  template <int kFewRows>
  static HWY_INLINE void multiply_column(const MatmulTile& tile, const float* const (&x)[kFewRows],
                                         std::int64_t n, FloatVec (&results)[kFewRows]) {
    const FloatTag d;
    const RowCursor row = cursor_of<kFormat>(*tile.weight, n);
    FloatVec sums[kFewRows];
    for (int m = 0; m < kFewRows; ++m) sums[m] = hn::Zero(d);
    // A single row has a single chain in each block. Two blocks at a time keep more of them under way than
    // wait in the processor's schedulers (one thread of a Zen 4, FP8 in its caches: 18 against 22 GB/s).
    constexpr std::int64_t kTogether = kFewRows == 1 ? 2 : 1;
    std::int64_t k = 0;
    for (; k + kTogether * kSummed <= tile.weight->cols; k += kTogether * kSummed) {
      add_blocks<kTogether>(row, x, k, sums);
    }
    if (k < tile.weight->cols) add_blocks<1>(row, x, k, sums);
    for (int m = 0; m < kFewRows; ++m) results[m] = sums[m];
  }

  // Many rows (tile_rows-inl.h). Accumulators: 3 x 4 of 16 registers, as many of 32.
  static constexpr int kRows = 3;

  struct Panel {
    alignas(64) float values[kPanelColumns][kPanelInputs + 16];  // columns in different sets of the cache
    alignas(64) float scales[kPanelColumns][has_scales(kFormat) ? kPanelInputs / kSummed * kLanes : 1];
  };

  static HWY_INLINE void fill(const MatmulTile& tile, const PanelRange& range, Panel& panel) {
    for (std::int64_t c = 0; c < kPanelColumns; ++c) {
      const RowCursor row = cursor_of<kFormat>(*tile.weight, std::min(range.n + c, tile.n_end - 1));
      float* to = panel.values[c];
      for (std::int64_t k = range.begin; k < range.end; k += kSummed, to += kSummed) {
        RowBlock<kFormat> weights;
#pragma GCC unroll 4
        for (std::int64_t at = 0; at < kSummed; at += kStep) {
          weights.Load(row, k + at);
          prefetch_next_panel<LaneSums>(tile, row, (k + at) / kStep * 4 * kLanes);
          store_parts(weights, to + at);
        }
        store_scale(weights, panel.scales[c] + (k - range.begin) / kSummed * kLanes);
      }
    }
  }

  template <int kTileRows>
  static HWY_NOINLINE void multiply(const float* const (&x)[kTileRows], const PanelRange& range,
                                    const Panel& panel, float* sums) {
    for (int c = 0; c < kPanelColumns; c += kTileColumns) {
      for (std::int64_t k = 0; k < range.num_inputs(); k += kSummed) {
        FloatVec block_sums[kTileRows][kTileColumns];
        multiply_block<kTileRows>(x, k, panel, c, block_sums);
        if (range.begin + k == 0) {
          add_to_sums<true>(block_sums, k, panel, c, sums);
        } else {
          add_to_sums<false>(block_sums, k, panel, c, sums);
        }
      }
    }
  }

 private:
  /// Adds the products of kBlocks blocks of inputs from k on.
  template <int kBlocks, int kFewRows>
  static HWY_INLINE void add_blocks(const RowCursor& row, const float* const (&x)[kFewRows], std::int64_t k,
                                    FloatVec (&sums)[kFewRows]) {
    FloatVec block_sums[kBlocks][kFewRows];
    for (int b = 0; b < kBlocks; ++b) {
      for (int m = 0; m < kFewRows; ++m) block_sums[b][m] = hn::Zero(FloatTag());
    }
    RowBlock<kFormat> weights[kBlocks];
    for (std::int64_t at = k; at < k + kSummed; at += kStep) {
      for (int b = 0; b < kBlocks; ++b) {
        weights[b].Load(row, at + b * kSummed);
        multiply_parts<kFewRows>(weights[b], x, at + b * kSummed, block_sums[b]);
      }
    }
    for (int b = 0; b < kBlocks; ++b) {
      for (int m = 0; m < kFewRows; ++m) sums[m] = add_block(weights[b], block_sums[b][m], sums[m]);
    }
  }

  /// Sums of the products of the block of inputs from k on with the panel's columns from `column` on.
  template <int kTileRows>
  static HWY_INLINE void multiply_block(const float* const (&x)[kTileRows], std::int64_t k,
                                        const Panel& panel, int column,
                                        FloatVec (&block_sums)[kTileRows][kTileColumns]) {
    const FloatTag d;
    constexpr int kSteps = static_cast<int>(kSummed / kLanes);
    for (int m = 0; m < kTileRows; ++m) {
      for (int i = 0; i < kTileColumns; ++i) block_sums[m][i] = hn::Zero(d);
    }
#pragma GCC unroll 16
    for (int step = 0; step < kSteps; ++step) {
      const std::int64_t at = k + step * kLanes;
      FloatVec v[kTileRows];
      for (int m = 0; m < kTileRows; ++m) v[m] = hn::Load(d, x[m] + at);
      for (int i = 0; i < kTileColumns; ++i) {
        const FloatVec w = in_register(hn::Load(d, panel.values[column + i] + at));
        for (int m = 0; m < kTileRows; ++m) block_sums[m][i] = hn::MulAdd(v[m], w, block_sums[m][i]);
      }
    }
  }

  /// Adds the sums of the block of inputs from k on to the accumulators of the columns from `column` on.
  template <bool kFirst, int kTileRows>
  static HWY_INLINE void add_to_sums(const FloatVec (&block_sums)[kTileRows][kTileColumns], std::int64_t k,
                                     const Panel& panel, int column, float* sums) {
    const FloatTag d;
    for (int i = 0; i < kTileColumns; ++i) {
      RowBlock<kFormat> weights;
      if constexpr (has_scales(kFormat))
        weights.scale = hn::Load(d, panel.scales[column + i] + k / kSummed * kLanes);
      for (int m = 0; m < kTileRows; ++m) {
        float* sum = sums + (m * kPanelColumns + column + i) * kLanes;
        hn::Store(add_block(weights, block_sums[m][i], sum_so_far<kFirst>(sum)), d, sum);
      }
    }
  }

  /// Adds the products of part kPart and the parts after it.
  template <int kFewRows, int kPart = 0>
  static HWY_INLINE void multiply_parts(const RowBlock<kFormat>& weights, const float* const (&x)[kFewRows],
                                        std::int64_t at, FloatVec (&sums)[kFewRows]) {
    const FloatVec w = weights.template Get<kPart>();
    for (int m = 0; m < kFewRows; ++m) {
      sums[m] = hn::MulAdd(w, hn::Load(FloatTag(), x[m] + at + kPart * kLanes), sums[m]);
    }
    if constexpr (kPart + 1 < packed_per_lane(kFormat))
      multiply_parts<kFewRows, kPart + 1>(weights, x, at, sums);
  }

  static HWY_INLINE void store_scale(const RowBlock<kFormat>& weights, float* to) {
    if constexpr (has_scales(kFormat)) {
      const auto factor = hn::Set(FloatTag(), 1.0F / RowBlock<kFormat>::kActivationFactor);
      hn::Store(hn::Mul(weights.scale, factor), FloatTag(), to);
    }
  }

  /// Half of the missing factor moves from the scale to the weights, after which none is subnormal: each
  /// would be multiplied many times, and some processors' multipliers are slow then.
  template <int kPart = 0>
  static HWY_INLINE void store_parts(const RowBlock<kFormat>& weights, float* to) {
    const auto factor = hn::Set(FloatTag(), RowBlock<kFormat>::kActivationFactor);
    hn::Store(hn::Mul(weights.template Get<kPart>(), factor), FloatTag(), to + kPart * kLanes);
    if constexpr (kPart + 1 < packed_per_lane(kFormat)) store_parts<kPart + 1>(weights, to);
  }
};

template <WeightFormat kFormat, class Use>
HWY_INLINE void choose_int8(const Use& use) {
  if (has_byte_dots()) return use(Int8Products<kFormat, true>());
  use(Int8Products<kFormat, false>());
}

/// `kScaled`: inputs of the activations that share a scale.
template <int kScaled, class Use>
HWY_INLINE void choose_integers(const Use& use) {
  if (has_word_dots()) return use(IntegerFp4Products<true, kScaled>());
  use(IntegerFp4Products<false, kScaled>());
}

/// Calls `use` with the kind of product that this machine takes for weights of a format and activations that
/// are rounded or not.
template <class Use>
HWY_INLINE void choose_products(WeightFormat format, ActivationRounding rounding, const Use& use) {
  const bool fp8_rows = fp8_group(rounding) > 0;
  switch (format) {
    case WeightFormat::kF32:
      return use(FloatProducts<WeightFormat::kF32>());
    case WeightFormat::kBF16:
      return use(FloatProducts<WeightFormat::kBF16>());
    case WeightFormat::kFp8:
#if HWY_TARGET == HWY_AVX3
      if (rounding != ActivationRounding::kNone && uses_bf16_tiles()) {
        return use(AmxProducts<WeightFormat::kFp8, TileRegisters>());
      }
      if (fp8_rows && uses_bf16_dots()) return use(Bf16DotProducts<WeightFormat::kFp8>());
#endif
      return use(FloatProducts<WeightFormat::kFp8>());
    case WeightFormat::kFp8x32:
#if HWY_TARGET == HWY_AVX3
      if (rounding != ActivationRounding::kNone && uses_bf16_tiles()) {
        return use(AmxProducts<WeightFormat::kFp8x32, TileRegisters>());
      }
      if (fp8_rows && uses_bf16_dots()) return use(Bf16DotProducts<WeightFormat::kFp8x32>());
#endif
      return use(FloatProducts<WeightFormat::kFp8x32>());
    case WeightFormat::kFp4:
      if (rounding == ActivationRounding::kInt8) return choose_int8<WeightFormat::kFp4>(use);
#if HWY_TARGET == HWY_AVX3
      if (fp8_rows && uses_bf16_tiles()) return use(AmxProducts<WeightFormat::kFp4, TileRegisters>());
      if (fp8_rows && uses_bf16_dots()) return use(Bf16DotProducts<WeightFormat::kFp4>());
#endif
      if (kIntegerFp4 && rounding == ActivationRounding::kFp8x32) return choose_integers<kGroup>(use);
      if (kIntegerFp4 && fp8_rows) return choose_integers<kActivationGroup>(use);
      return use(FloatProducts<WeightFormat::kFp4>());
    case WeightFormat::kNvfp4:
#if HWY_TARGET == HWY_AVX3
      if (fp8_rows && uses_bf16_tiles()) return use(AmxProducts<WeightFormat::kNvfp4, TileRegisters>());
      if (fp8_rows && uses_bf16_dots()) return use(Bf16DotProducts<WeightFormat::kNvfp4>());
#endif
      return use(FloatProducts<WeightFormat::kNvfp4>());
    case WeightFormat::kInt8:
      return choose_int8<WeightFormat::kInt8>(use);
    case WeightFormat::kQ8:
      return use(FloatProducts<WeightFormat::kQ8>());
  }
}

}  // namespace

void matmul_tile_cpu(const MatmulTile& tile) {
  choose_products(tile.weight->format, tile.rounding, [&](auto products) {
    if constexpr (requires { products.run(tile); }) {
      products.run(tile);
    } else {
      any_rows<decltype(products)>(tile);
    }
  });
}

void pack_activations_cpu(const float* x, std::int64_t num_inputs, WeightFormat format,
                          ActivationRounding rounding, float* packed) {
  choose_products(format, rounding,
                  [&](auto products) { decltype(products)::pack_row(x, num_inputs, rounding, packed); });
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
  BALEEN_DCHECK(x.size() % kActivationGroup == 0);
  HWY_DYNAMIC_DISPATCH(pack_activations_cpu)
  (x.data(), static_cast<std::int64_t>(x.size()), format, rounding, packed);
}

}  // namespace baleen
#endif  // HWY_ONCE
