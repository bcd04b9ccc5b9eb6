// Activations as AMX multiplies them: rounded, as BF16 pairs in the order of unpacked weights, and
// transposed, so that a tile has a pair of inputs of up to 16 rows in each of its rows. Included once per
// instruction set (Highway).

#if defined(BALEEN_OPS_MATMUL_AMX_ACTIVATIONS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BALEEN_OPS_MATMUL_AMX_ACTIVATIONS_INL_H_
#undef BALEEN_OPS_MATMUL_AMX_ACTIVATIONS_INL_H_
#else
#define BALEEN_OPS_MATMUL_AMX_ACTIVATIONS_INL_H_
#endif

#include <hwy/aligned_allocator.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>

#include "numeric/rounding-inl.h"
#include "ops/matmul/amx_weights-inl.h"
#include "ops/matmul/matmul.h"
#include "ops/matmul/tile_rows-inl.h"

#if HWY_TARGET == HWY_AVX3

HWY_BEFORE_NAMESPACE();
namespace baleen::HWY_NAMESPACE {

/// Which pair of a block is where in packed activations.
template <WeightFormat kFormat>
struct AmxPairOrder {
  constexpr AmxPairOrder() {
    for (std::int32_t word = 0; word < kActivationGroup / 2; ++word) {
      pair[word] = static_cast<std::int32_t>(AmxWeights<kFormat>::input_of(word) / 2);
    }
  }
  alignas(64) std::int32_t pair[kActivationGroup / 2] = {};
};

/// A block of activations, rounded. BF16's below 2^-57 count as zero, as in float32's products (RowBlock).
HWY_INLINE void round_block(const float* x, ActivationRounding rounding, float* block) {
  const FloatTag d;
  if (const std::int64_t group = fp8_group(rounding); group > 0)
    return simulate_fp8_groups(d, x, block, kActivationGroup, group);
  for (std::int64_t i = 0; i < kActivationGroup; i += kLanes) {
    const auto value = round_bf16_simd(d, hn::LoadU(d, x + i));
    hn::Store(hn::IfThenZeroElse(hn::Lt(hn::Abs(value), hn::Set(d, 0x1p-57F)), value), d, block + i);
  }
}

/// Slices of a block fill half the room of its 128 float32 values.
template <WeightFormat kFormat>
void pack_amx_row(const float* x, std::int64_t num_inputs, ActivationRounding rounding, float* packed) {
  static constexpr AmxPairOrder<kFormat> kOrder;
  const FloatTag d;
  const WordTag du;
  const hn::Rebind<std::uint16_t, FloatTag> d16;
  alignas(64) float block[kActivationGroup];
  alignas(64) std::uint32_t pairs[kActivationGroup / 2];  // in order
  for (std::int64_t k = 0; k < num_inputs; k += kActivationGroup) {
    round_block(x + k, rounding, block);
    for (std::int64_t at = 0; at < kActivationGroup; at += kLanes) {
      const auto bits = hn::BitCast(du, hn::Load(d, block + at));
      hn::Store(hn::TruncateTo(d16, hn::ShiftRight<16>(bits)), d16,
                reinterpret_cast<std::uint16_t*>(pairs) + at);
    }
    auto* to = reinterpret_cast<std::uint32_t*>(packed + k);
    for (std::int64_t word = 0; word < kActivationGroup / 2; word += kLanes) {
      const auto from = hn::Load(hn::RebindToSigned<WordTag>(), kOrder.pair + word);
      hn::Store(hn::GatherIndex(du, pairs, from), du, to + word);
    }
  }
}

/// Slice `slice` of a row of packed activations.
HWY_INLINE const std::uint32_t* slice_at(const float* packed, std::int64_t slice) {
  return reinterpret_cast<const std::uint32_t*>(packed + slice / kSlicesPerBlock * kActivationGroup) +
         slice % kSlicesPerBlock * kSlicePairs;
}

/// Transposes slices [begin, end) of four rows of packed activations: word w of row i goes to
/// to[((slice - begin) * 16 + w) * stride + i].
HWY_INLINE void transpose_slices(const float* const (&rows)[4], std::int64_t begin, std::int64_t end,
                                 std::int64_t stride, std::uint32_t* to) {
  for (std::int64_t slice = begin; slice < end; ++slice, to += kSlicePairs * stride) {
    const auto row = [&](int i) { return _mm512_load_si512(slice_at(rows[i], slice)); };
    const __m512i lower01 = _mm512_unpacklo_epi32(row(0), row(1));
    const __m512i upper01 = _mm512_unpackhi_epi32(row(0), row(1));
    const __m512i lower23 = _mm512_unpacklo_epi32(row(2), row(3));
    const __m512i upper23 = _mm512_unpackhi_epi32(row(2), row(3));
    const auto store = [&](std::int64_t place, __m512i words) HWY_ATTR {
      const auto at = [&](std::int64_t part) {
        return reinterpret_cast<__m128i*>(to + (4 * part + place) * stride);
      };
      _mm_store_si128(at(0), _mm512_castsi512_si128(words));
      _mm_store_si128(at(1), _mm512_extracti32x4_epi32(words, 1));
      _mm_store_si128(at(2), _mm512_extracti32x4_epi32(words, 2));
      _mm_store_si128(at(3), _mm512_extracti32x4_epi32(words, 3));
    };
    store(0, _mm512_unpacklo_epi64(lower01, lower23));
    store(1, _mm512_unpackhi_epi64(lower01, lower23));
    store(2, _mm512_unpacklo_epi64(upper01, upper23));
    store(3, _mm512_unpackhi_epi64(upper01, upper23));
  }
}

/// Room for transposed activations, kept for the thread's next product.
inline std::uint32_t* transposed_room(std::int64_t num_words) {
  thread_local hwy::AlignedFreeUniquePtr<std::uint32_t[]> room;
  thread_local std::int64_t size = 0;
  if (size < num_words) {
    room = hwy::AllocateAligned<std::uint32_t>(static_cast<std::size_t>(num_words));
    size = num_words;
  }
  return room.get();
}

/// Slices [begin, end) of rows m to m + kColumns - 1, as right operands [slice][16][kColumns]. Rows past the
/// tile repeat its last.
template <std::int64_t kColumns>
void transpose_rows(const MatmulTile& tile, std::int64_t m, std::int64_t begin, std::int64_t end,
                    std::uint32_t* to) {
  for (std::int64_t column = 0; column < kColumns; column += 4) {
    const float* rows[4];
    for (std::int64_t i = 0; i < 4; ++i) {
      rows[i] = packed_row(tile, std::min(m + column + i, tile.num_rows - 1));
    }
    transpose_slices(rows, begin, end, kColumns, to + column);
  }
}

}  // namespace baleen::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // HWY_TARGET == HWY_AVX3

#endif  // BALEEN_OPS_MATMUL_AMX_ACTIVATIONS_INL_H_
