// FP8, FP4 and NVFP4 weights times FP8 activations as BF16, two products an instruction, on x86 that has
// AVX-512 with BF16 dot products and byte permutations (Zen 4, Sapphire Rapids and later). Included once per
// instruction set (Highway).
//
// Both sides are exact in BF16, and no product is subnormal (an activation is at least 2^-31, a weight
// 2^-10): that the instruction takes subnormals as zero does not show. How it rounds between its two products
// is the processor's; every number of rows goes through it, so results do not depend on that number.

#if defined(BALEEN_OPS_MATMUL_BF16_DOTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BALEEN_OPS_MATMUL_BF16_DOTS_INL_H_
#undef BALEEN_OPS_MATMUL_BF16_DOTS_INL_H_
#else
#define BALEEN_OPS_MATMUL_BF16_DOTS_INL_H_
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "numeric/bf16.h"
#include "numeric/e2m1.h"
#include "numeric/e4m3.h"
#include "ops/matmul/tile_rows-inl.h"
#include "ops/matmul/unpack-inl.h"

#if HWY_TARGET == HWY_AVX3

HWY_BEFORE_NAMESPACE();
namespace baleen::HWY_NAMESPACE {

/// Adds to every lane the products of its two BF16 values. (Highway's target that has them asks for other
/// extensions, too, so instructions are written out.)
HWY_INLINE FloatVec add_dots(FloatVec sum, WordVec a, WordVec b) {
  asm("vdpbf16ps %2, %1, %0" : "+v"(sum.raw) : "v"(a.raw), "v"(b.raw));
  return sum;
}

/// table[code % 128] for 64 codes.
HWY_INLINE ByteVec look_up(ByteVec codes, ByteVec lower_table, ByteVec upper_table) {
  asm("vpermi2b %2, %1, %0" : "+v"(codes.raw) : "v"(lower_table.raw), "v"(upper_table.raw));
  return codes;
}

/// Upper and lower bytes of the BF16 values of all positive codes.
struct Bf16Tables {
  alignas(64) std::uint8_t e4m3_upper[128];
  alignas(64) std::uint8_t e4m3_lower[128];
  alignas(64) std::uint8_t e2m1_upper[16];
  alignas(64) std::uint8_t e2m1_lower[16];
};

inline const Bf16Tables& bf16_tables() {
  static const Bf16Tables tables = [] {
    Bf16Tables made;
    for (int code = 0; code < 128; ++code) {
      const Bf16Bits bits = float_to_bf16(e4m3_to_float(static_cast<std::uint8_t>(code)));
      made.e4m3_upper[code] = static_cast<std::uint8_t>(bits >> 8);
      made.e4m3_lower[code] = static_cast<std::uint8_t>(bits & 0xFF);
    }
    for (int code = 0; code < 16; ++code) {
      const Bf16Bits bits = float_to_bf16(e2m1_to_float(static_cast<std::uint8_t>(code)));
      made.e2m1_upper[code] = static_cast<std::uint8_t>(bits >> 8);
      made.e2m1_lower[code] = static_cast<std::uint8_t>(bits & 0xFF);
    }
    return made;
  }();
  return tables;
}

/// Unpacks a load of 64 bytes of weights, those of inputs k and further, to kVectors vectors of pairs; lane l
/// of vector v has the inputs from `input_of(v, l)` on: two that are neighbours, of FP4 two that are two
/// apart.
template <WeightFormat kFormat>
class Bf16Unpacker;

template <>
class Bf16Unpacker<WeightFormat::kFp8> {
 public:
  static constexpr int kVectors = 2;
  static constexpr int kPairDistance = 1;
  HWY_INLINE Bf16Unpacker() {
    const ByteTag d;
    const Bf16Tables& tables = bf16_tables();
    upper_[0] = hn::Load(d, tables.e4m3_upper);
    upper_[1] = hn::Load(d, tables.e4m3_upper + 64);
    lower_[0] = hn::Load(d, tables.e4m3_lower);
    lower_[1] = hn::Load(d, tables.e4m3_lower + 64);
  }
  HWY_INLINE void Unpack(const RowCursor& row, std::int64_t k, WordVec (&pairs)[kVectors]) const {
    const ByteTag d;
    const auto all = hn::LoadU(d, row.codes + k);
    const auto sign = hn::And(all, hn::Set(d, std::uint8_t{0x80}));
    const auto upper = hn::Or(look_up(all, upper_[0], upper_[1]), sign);
    const auto lower = look_up(all, lower_[0], lower_[1]);
    pairs[0] = hn::BitCast(WordTag(), hn::InterleaveLower(d, lower, upper));
    pairs[1] = hn::BitCast(WordTag(), hn::InterleaveUpper(d, lower, upper));
  }
  static std::int64_t input_of(std::int64_t v, std::int64_t lane) {
    return lane / 4 * 16 + v * 8 + lane % 4 * 2;
  }

 private:
  ByteVec upper_[2], lower_[2];
};

/// Lanes 0 to 7 have the first 32 inputs of a load.
template <>
class Bf16Unpacker<WeightFormat::kFp8x32> : public Bf16Unpacker<WeightFormat::kFp8> {
 public:
  HWY_INLINE Bf16Unpacker() {}
};

template <>
class Bf16Unpacker<WeightFormat::kFp4> {
 public:
  static constexpr int kVectors = 4;
  static constexpr int kPairDistance = 2;
  HWY_INLINE Bf16Unpacker() {
    const ByteTag d;
    upper_ = hn::LoadDup128(d, bf16_tables().e2m1_upper);
    lower_ = hn::LoadDup128(d, bf16_tables().e2m1_lower);
  }
  HWY_INLINE void Unpack(const RowCursor& row, std::int64_t k, WordVec (&pairs)[kVectors]) const {
    const ByteTag d;
    const hn::Repartition<std::uint16_t, FloatTag> d16;
    const auto nibble = hn::Set(d, std::uint8_t{15});
    const auto both = hn::LoadU(d, row.codes + k / 2);
    const ByteVec half[2] = {hn::And(both, nibble),
                             hn::And(hn::BitCast(d, hn::ShiftRight<4>(hn::BitCast(d16, both))), nibble)};
    for (int i = 0; i < 2; ++i) {
      const auto lower = hn::TableLookupBytes(lower_, half[i]), upper = hn::TableLookupBytes(upper_, half[i]);
      pairs[2 * i] = hn::BitCast(WordTag(), hn::InterleaveLower(d, lower, upper));
      pairs[2 * i + 1] = hn::BitCast(WordTag(), hn::InterleaveUpper(d, lower, upper));
    }
  }
  /// Byte 16 (lane / 4) + 8 (v % 2) + 2 (lane % 4) and the next; even inputs in vectors 0 and 1, odd in 2 and
  /// 3. Four lanes are a group of 32.
  static std::int64_t input_of(std::int64_t v, std::int64_t lane) {
    return 2 * (lane / 4 * 16 + v % 2 * 8 + lane % 4 * 2) + v / 2;
  }

 private:
  ByteVec upper_, lower_;
};

/// Of 64 bytes of BF16 values, byte b is of value b / 2; each half of a group has every other four of these.
struct Fp4Places {
  /// `half_tables`: each half has a table of 32 bytes.
  constexpr explicit Fp4Places(bool half_tables) {
    for (int byte = 0; byte < 64; ++byte) {
      shifts[byte] = static_cast<std::uint8_t>(4 * (byte / 16 * 4 + byte % 8 / 2));
      upper[byte] = static_cast<std::uint8_t>(byte % 2 * 16 + (half_tables ? byte / 8 % 2 * 32 : 0));
    }
  }
  alignas(64) std::uint8_t shifts[64] = {};  ///< to a value's code
  alignas(64) std::uint8_t upper[64] = {};   ///< part of the tables for a value's upper byte
};

/// The eight bits of each 64 that begin at a byte's shift.
HWY_INLINE ByteVec shift_bytes(ByteVec codes, ByteVec shifts) {
  ByteVec shifted;
  asm("vpmultishiftqb %2, %1, %0" : "=v"(shifted.raw) : "v"(shifts.raw), "v"(codes.raw));
  return shifted;
}

/// Where the bytes of 32 values are in their table, whose 16 codes lie from `codes` on.
HWY_INLINE ByteVec fp4_places(const std::uint8_t* codes, ByteVec shifts, ByteVec upper) {
  const ByteVec both{_mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(codes)))};
  return hn::OrAnd(upper, shift_bytes(both, shifts), hn::Set(ByteTag(), std::uint8_t{15}));
}

/// NVFP4's scales enter the values: products of six bits, from 2^-10 to 2,688, are normal BF16 numbers.
///
/// tables.values[s]: lower bytes of the BF16 values of all codes times the scale of code s, then their upper
/// bytes.
struct ScaledFp4Tables {
  alignas(64) std::uint8_t values[128][32];
};

inline const ScaledFp4Tables& scaled_fp4_tables() {
  static const ScaledFp4Tables tables = [] {
    ScaledFp4Tables made = {};
    for (int scale = 0; scale < 128; ++scale) {
      for (int code = 0; code < 16; ++code) {
        const Bf16Bits bits = float_to_bf16(e2m1_to_float(static_cast<std::uint8_t>(code)) *
                                            e4m3_to_float(static_cast<std::uint8_t>(scale)));
        made.values[scale][code] = static_cast<std::uint8_t>(bits & 0xFF);
        made.values[scale][16 + code] = static_cast<std::uint8_t>(bits >> 8);
      }
    }
    return made;
  }();
  return tables;
}

template <>
class Bf16Unpacker<WeightFormat::kNvfp4> {
 public:
  static constexpr int kVectors = 4;
  static constexpr int kPairDistance = 1;
  HWY_INLINE Bf16Unpacker() : tables_(scaled_fp4_tables().values[0]) {}
  HWY_INLINE void Unpack(const RowCursor& row, std::int64_t k, WordVec (&pairs)[kVectors]) const {
    static constexpr Fp4Places kPlaces(true);
    const ByteVec shifts = hn::Load(ByteTag(), kPlaces.shifts);
    const ByteVec upper = hn::Load(ByteTag(), kPlaces.upper);
    const std::uint8_t* const tables = tables_;
    const std::uint8_t* const scales = row.group_scales + k / 16;
    const auto table = [&](int group) HWY_ATTR {
      return _mm256_load_si256(
          reinterpret_cast<const __m256i*>(tables + (scales[group] & 0x7F) * kTableBytes));
    };
    for (int v = 0; v < kVectors; ++v) {
      const __m512i both = _mm512_inserti64x4(_mm512_castsi256_si512(table(2 * v)), table(2 * v + 1), 1);
      ByteVec found;
      asm("vpermb %2, %1, %0"
          : "=v"(found.raw)
          : "v"(fp4_places(row.codes + k / 2 + v * 16, shifts, upper).raw), "v"(both));
      pairs[v] = hn::BitCast(WordTag(), found);
    }
  }
  /// Four lanes alternate between the halves of 32 inputs.
  static constexpr std::int64_t input_of(std::int64_t v, std::int64_t lane) {
    return v * 32 + lane / 2 % 2 * 16 + lane / 4 * 4 + lane % 2 * 2;
  }

 private:
  static constexpr std::int64_t kTableBytes = 32;

  const std::uint8_t* tables_;
};

/// Products of all these formats. A block of 128 inputs has a sum of its own, which the scales multiply; of
/// kFp8x32, whose scales change after that, a load of 64.
template <WeightFormat kFormat>
struct Bf16DotProducts : LaneSums {
  using Unpacker = Bf16Unpacker<kFormat>;
  static constexpr int kVectors = Unpacker::kVectors;
  static constexpr std::int64_t kLoadInputs = kVectors * 2 * kLanes;
  static constexpr std::int64_t kBlockInputs =
      kFormat == WeightFormat::kFp8x32 ? kLoadInputs : std::int64_t{kActivationGroup};
  static constexpr int kBlockVectors = kBlockInputs / (2 * kLanes);

  /// Values of a block, in float32 and rounded to FP8 already, as pairs in the order of the weights.
  static void pack_block(const float* x, float* packed) {
    auto* to = reinterpret_cast<std::uint16_t*>(packed);
    for (std::int64_t load = 0; load < kActivationGroup; load += kLoadInputs) {
      for (std::int64_t v = 0; v < kVectors; ++v) {
        for (std::int64_t lane = 0; lane < kLanes; ++lane) {
          const float* from = x + load + Unpacker::input_of(v, lane);
          std::uint32_t pair[2];
          std::memcpy(&pair[0], from, 4);
          std::memcpy(&pair[1], from + Unpacker::kPairDistance, 4);
          *to++ = static_cast<std::uint16_t>(pair[0] >> 16);
          *to++ = static_cast<std::uint16_t>(pair[1] >> 16);
        }
      }
    }
  }

  static void pack_row(const float* x, std::int64_t num_inputs, ActivationRounding rounding, float* packed) {
    alignas(64) float block[kActivationGroup];
    for (std::int64_t k = 0; k < num_inputs; k += kActivationGroup) {
      simulate_fp8_groups(FloatTag(), x + k, block, kActivationGroup, fp8_group(rounding));
      pack_block(block, packed + k);
    }
  }

  static HWY_INLINE FloatVec block_scale(const RowCursor& row, std::int64_t block) {
    if constexpr (kFormat == WeightFormat::kFp8) {
      return hn::Set(FloatTag(), row.block_scales[block]);
    } else if constexpr (kFormat == WeightFormat::kFp8x32) {
      const std::uint8_t* const scales = row.group_scales + 2 * block;
      return scales_of_quads(group_scale(scales[0]), group_scale(scales[1]));
    } else if constexpr (kFormat == WeightFormat::kNvfp4) {
      return hn::Set(FloatTag(), 1.0F);
    } else {
      return group_scales(row.group_scales + block * 4);
    }
  }

  template <int kFewRows>
  static HWY_INLINE void multiply_column(const MatmulTile& tile, const float* const (&x)[kFewRows],
                                         std::int64_t n, FloatVec (&results)[kFewRows]) {
    const Unpacker unpacker;
    const RowCursor row = cursor_of<kFormat>(*tile.weight, n);
    FloatVec sums[kFewRows];
    for (int m = 0; m < kFewRows; ++m) sums[m] = hn::Zero(FloatTag());
    for (std::int64_t block = 0; block < tile.weight->cols / kBlockInputs; ++block) {
      FloatVec block_sums[kFewRows];
      for (int m = 0; m < kFewRows; ++m) block_sums[m] = hn::Zero(FloatTag());
      for (int first = 0; first < kBlockVectors; first += kVectors) {
        WordVec weights[kVectors];
        const std::int64_t k = block * kBlockInputs + first * 2 * kLanes;
        unpacker.Unpack(row, k, weights);
        if (!is_fp8(kFormat) && kFewRows == 1) prefetch_ahead(row, k / 2);
        for (int v = 0; v < kVectors; ++v) {
          for (int m = 0; m < kFewRows; ++m) {
            block_sums[m] = add_dots(block_sums[m], pairs_at(x[m], block, first + v), weights[v]);
          }
        }
      }
      const FloatVec scale = block_scale(row, block);
      for (int m = 0; m < kFewRows; ++m) sums[m] = hn::MulAdd(block_sums[m], scale, sums[m]);
    }
    for (int m = 0; m < kFewRows; ++m) results[m] = sums[m];
  }

  static constexpr int kRows = 3;

  struct Panel {
    alignas(64) std::uint32_t pairs[kPanelColumns][kPanelInputs / 2 + 16];  // in different sets
    alignas(64) float scales[kPanelColumns][kPanelInputs / kBlockInputs * kLanes];
  };

  static HWY_INLINE void fill(const MatmulTile& tile, const PanelRange& range, Panel& panel) {
    const Unpacker unpacker;
    for (std::int64_t c = 0; c < kPanelColumns; ++c) {
      const RowCursor row = cursor_of<kFormat>(*tile.weight, std::min(range.n + c, tile.n_end - 1));
      for (std::int64_t k = range.begin; k < range.end; k += kLoadInputs) {
        const std::int64_t at = k / kLoadInputs * 4 * kLanes;
        WordVec weights[kVectors];
        unpacker.Unpack(row, k, weights);
        prefetch_next_panel<LaneSums>(tile, row, at);
        std::uint32_t* to = panel.pairs[c] + (k - range.begin) / 2;
        for (int v = 0; v < kVectors; ++v) hn::Store(weights[v], WordTag(), to + v * kLanes);
      }
      for (std::int64_t k = range.begin; k < range.end; k += kBlockInputs) {
        float* to = panel.scales[c] + (k - range.begin) / kBlockInputs * kLanes;
        hn::Store(block_scale(row, k / kBlockInputs), FloatTag(), to);
      }
    }
  }

  template <int kTileRows>
  static HWY_INLINE void multiply(const float* const (&x)[kTileRows], const PanelRange& range,
                                  const Panel& panel, float* sums) {
    const FloatTag d;
    for (int c = 0; c < kPanelColumns; c += kTileColumns) {
      for (std::int64_t block = 0; block < range.num_inputs() / kBlockInputs; ++block) {
        FloatVec block_sums[kTileRows][kTileColumns];
        for (int m = 0; m < kTileRows; ++m) {
          for (int i = 0; i < kTileColumns; ++i) block_sums[m][i] = hn::Zero(d);
        }
        for (int v = 0; v < kBlockVectors; ++v) {
          WordVec pairs[kTileRows];
          for (int m = 0; m < kTileRows; ++m) pairs[m] = pairs_at(x[m], block, v);
          for (int i = 0; i < kTileColumns; ++i) {
            const WordVec w = hn::Load(WordTag(), panel.pairs[c + i] + (block * kBlockVectors + v) * kLanes);
            for (int m = 0; m < kTileRows; ++m) block_sums[m][i] = add_dots(block_sums[m][i], pairs[m], w);
          }
        }
        if (range.begin + block == 0) {
          add_to_sums<true>(block_sums, block, panel, c, sums);
        } else {
          add_to_sums<false>(block_sums, block, panel, c, sums);
        }
      }
    }
  }

 private:
  /// Adds a block's sums to the accumulators of the columns from `column` on.
  template <bool kFirst, int kTileRows>
  static HWY_INLINE void add_to_sums(const FloatVec (&block_sums)[kTileRows][kTileColumns],
                                     std::int64_t block, const Panel& panel, int column, float* sums) {
    const FloatTag d;
    for (int i = 0; i < kTileColumns; ++i) {
      const FloatVec scale = hn::Load(d, panel.scales[column + i] + block * kLanes);
      for (int m = 0; m < kTileRows; ++m) {
        float* sum = sums + (m * kPanelColumns + column + i) * kLanes;
        hn::Store(hn::MulAdd(block_sums[m][i], scale, sum_so_far<kFirst>(sum)), d, sum);
      }
    }
  }

  /// Vector v of a block of packed activations, which fill half the room of 128 float32 values.
  static HWY_INLINE WordVec pairs_at(const float* x, std::int64_t block, int v) {
    const std::int64_t at = block * kBlockInputs;
    return hn::Load(WordTag(),
                    reinterpret_cast<const std::uint32_t*>(x + at / kActivationGroup * kActivationGroup) +
                        at % kActivationGroup / 2 + v * kLanes);
  }
};

}  // namespace baleen::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // HWY_TARGET == HWY_AVX3

#endif  // BALEEN_OPS_MATMUL_BF16_DOTS_INL_H_
