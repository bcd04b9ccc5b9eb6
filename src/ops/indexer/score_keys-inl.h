// Scores of a group of keys of a list for one prepared query, keys in lanes. Included once per instruction
// set (Highway).
//
// A group's keys are unpacked and turned once and then serve all heads from the first-level cache. With FP4
// and AVX-512's byte dot products a key costs 64 heads x 128 dims / 64 = 128 multiply-add instructions per 16
// lanes; the scales of the four blocks add 3 x 4 to each head's 32, turning some 8 to all of a key.

#if defined(BALEEN_OPS_INDEXER_SCORE_KEYS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef BALEEN_OPS_INDEXER_SCORE_KEYS_INL_H_
#undef BALEEN_OPS_INDEXER_SCORE_KEYS_INL_H_
#else
#define BALEEN_OPS_INDEXER_SCORE_KEYS_INL_H_
#endif

#include <hwy/highway.h>

#include <cstdint>
#include <cstring>
#include <span>

#include "numeric/transpose-inl.h"
#include "ops/indexer/key_list.h"
#include "ops/indexer/query.h"

HWY_BEFORE_NAMESPACE();
namespace baleen::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using FloatTag = hn::CappedTag<float, 16>;
using IntTag = hn::RebindToSigned<FloatTag>;
using FloatVec = hn::Vec<FloatTag>;
using IntVec = hn::Vec<IntTag>;
constexpr int kLanes = static_cast<int>(hn::MaxLanes(FloatTag()));
/// Vectors of keys a group has, and heads that share their loads: 4 x 2 x 2 accumulators of 32 registers, 2 x
/// 2 x 2 of 16.
constexpr int kGroupVecs = 2;
constexpr int kGroup = kGroupVecs * kLanes;
constexpr int kTileHeads = kLanes == 16 || HWY_ARCH_ARM_A64 ? 4 : 2;
/// Without block scales there is one accumulator for each head and vector, so twice the heads fit.
constexpr int kFloatTileHeads = 2 * kTileHeads;
static_assert(kGroup <= kMaxGroup);

/// Whether this machine has VNNI beside AVX-512. (Highway 1.0 has a target for the two, but gives the
/// compiler the flag of another extension, so the instruction is written out below.)
HWY_INLINE bool has_byte_dots() {
#if HWY_TARGET == HWY_AVX3
  return __builtin_cpu_supports("avx512vnni") != 0;
#else
  return false;
#endif
}

/// Adds to every 32-bit lane the product of its four unsigned bytes of `keys` with the four signed bytes of
/// `query`. Up to eight of them may run before `finish_quads`: without byte dot products the sums stay in
/// 16-bit halves, 8 * 2 * 24 * 12 at most.
template <bool kByteDots>
HWY_INLINE IntVec dot_quad(IntVec sum, IntVec keys, IntVec query) {
#if HWY_TARGET == HWY_AVX3
  if constexpr (kByteDots) {
    asm("vpdpbusd %2, %1, %0" : "+v"(sum.raw) : "v"(keys.raw), "v"(query.raw));
    return sum;
  }
  return IntVec{_mm512_add_epi16(sum.raw, _mm512_maddubs_epi16(keys.raw, query.raw))};
#elif HWY_TARGET == HWY_AVX2
  return IntVec{_mm256_add_epi16(sum.raw, _mm256_maddubs_epi16(keys.raw, query.raw))};
#elif HWY_TARGET == HWY_SSE4
  return IntVec{_mm_add_epi16(sum.raw, _mm_maddubs_epi16(keys.raw, query.raw))};
#else
  const hn::Repartition<std::int16_t, IntTag> d16;
  const hn::RebindToUnsigned<decltype(d16)> u16;
  const auto key = hn::BitCast(u16, keys);
  const auto even_key = hn::BitCast(d16, hn::And(key, hn::Set(u16, std::uint16_t{0xFF})));
  const auto odd_key = hn::BitCast(d16, hn::ShiftRight<8>(key));
  const auto q = hn::BitCast(d16, query);
  const auto even = hn::Mul(even_key, hn::ShiftRight<8>(hn::ShiftLeft<8>(q)));
  const auto odd = hn::Mul(odd_key, hn::ShiftRight<8>(q));
  return hn::BitCast(IntTag(), hn::Add(hn::BitCast(d16, sum), hn::Add(even, odd)));
#endif
}

/// The 32-bit sums.
template <bool kByteDots>
HWY_INLINE IntVec finish_quads(IntVec sum) {
  if constexpr (kByteDots) return sum;
  return hn::Add(hn::ShiftRight<16>(sum), hn::ShiftRight<16>(hn::ShiftLeft<16>(sum)));
}

/// Where a group's rows are: in their page, or copied together when they are no neighbours, cross pages or
/// are cut short.
struct PackedKeys {
  const std::int32_t* codes = nullptr;    ///< [group][16]
  const std::uint32_t* scales = nullptr;  ///< [group], a byte a block
};

HWY_INLINE PackedKeys locate_keys(const IndexKeyPool& pool, std::span<const PageId> pages,
                                  const KeyList& keys, std::int64_t begin, int count,
                                  IndexerScratch& scratch) {
  constexpr std::int64_t kCodeBytes = kIndexDim / 2;
  const auto page_of = [&](std::int64_t key) {
    return pool.page(static_cast<std::int64_t>(pages[static_cast<std::size_t>(key / pool.rows_per_page)]));
  };
  const auto codes_at = [&](std::int64_t key) {
    return page_of(key) + key % pool.rows_per_page * kCodeBytes;
  };
  const auto scales_at = [&](std::int64_t key) {
    return page_of(key) + pool.rows_per_page * kCodeBytes + key % pool.rows_per_page * kIndexBlocks;
  };
  const std::int64_t first = keys[begin];
  if (first % pool.rows_per_page + kGroup <= pool.rows_per_page && keys.is_run(begin, count)) {
    return {reinterpret_cast<const std::int32_t*>(codes_at(first)),
            reinterpret_cast<const std::uint32_t*>(scales_at(first))};
  }
  auto* codes = reinterpret_cast<std::byte*>(scratch.rows);
  std::byte* scales = codes + kGroup * kCodeBytes;
  for (int i = 0; i < count; ++i) {
    const std::int64_t key = keys[begin + i];
    std::memcpy(codes + i * kCodeBytes, codes_at(key), kCodeBytes);
    std::memcpy(scales + i * kIndexBlocks, scales_at(key), kIndexBlocks);
  }
  return {reinterpret_cast<const std::int32_t*>(codes), reinterpret_cast<const std::uint32_t*>(scales)};
}

/// keys[quad][group] from rows of packed FP4: a word of eight dims becomes the quad of its even and that of
/// its odd ones.
HWY_INLINE void unpack_keys(const std::int32_t* codes, std::int32_t* keys) {
  const IntTag d;
  const hn::RebindToUnsigned<IntTag> du;
  const hn::Repartition<std::uint8_t, IntTag> d8;
  constexpr int kWords = kIndexDim / 8;
  alignas(16) static constexpr std::uint8_t kDoubled[16] = {12, 13, 14, 15, 16, 18, 20, 24,
                                                            12, 11, 10, 9,  8,  6,  4,  0};
  static_assert(kDoubled[0] == kKeyOffset);
  const auto table = hn::LoadDup128(d8, kDoubled);
  const auto nibble = hn::Set(d8, std::uint8_t{15});
  for (int v = 0; v < kGroupVecs; ++v) {
    for (int word = 0; word < kWords; word += 4) {
      IntVec words[4];
      transpose_four(d, codes + v * kLanes * kWords + word, kWords, words[0], words[1], words[2], words[3]);
      for (int i = 0; i < 4; ++i) {
        const auto low = hn::And(hn::BitCast(d8, words[i]), nibble);
        const auto high = hn::And(hn::BitCast(d8, hn::ShiftRight<4>(hn::BitCast(du, words[i]))), nibble);
        std::int32_t* to = keys + 2 * (word + i) * kGroup + v * kLanes;
        hn::Store(hn::BitCast(d, hn::TableLookupBytes(table, low)), d, to);
        hn::Store(hn::BitCast(d, hn::TableLookupBytes(table, high)), d, to + kGroup);
      }
    }
  }
}

/// scales[v] of one block, from the keys' scale bytes. (Their 0 and 255 are never written: see
/// fp4_scale_code.)
HWY_INLINE void block_scales(const std::uint32_t* packed, int block, FloatVec (&scales)[kGroupVecs]) {
  const FloatTag d;
  const hn::RebindToUnsigned<FloatTag> du;
  for (int v = 0; v < kGroupVecs; ++v) {
    const auto bytes = hn::ShiftRightSame(hn::LoadU(du, packed + v * kLanes), 8 * block);
    scales[v] = hn::BitCast(d, hn::ShiftLeft<23>(hn::And(bytes, hn::Set(du, 0xFFu))));
  }
}

HWY_INLINE FloatVec add_head(FloatVec score, FloatVec dot, float weight) {
  // Not fused: every instruction set rounds alike.
  const FloatTag d;
  return hn::Add(score, hn::Mul(hn::Max(dot, hn::Zero(d)), hn::Set(d, weight)));
}

template <int kHeads, bool kByteDots>
HWY_INLINE void score_heads_fp4(const IndexerScratch& scratch, std::int64_t head,
                                const std::uint32_t* key_scales, FloatVec (&scores)[kGroupVecs]) {
  const FloatTag d;
  const IntTag di;
  FloatVec dots[kHeads][kGroupVecs];
  for (int h = 0; h < kHeads; ++h) {
    for (int v = 0; v < kGroupVecs; ++v) dots[h][v] = hn::Zero(d);
  }
  const std::int32_t* codes = scratch.codes + head * kQuads;
  for (int block = 0; block < kIndexBlocks; ++block) {
    IntVec sums[kHeads][kGroupVecs];
    for (int h = 0; h < kHeads; ++h) {
      for (int v = 0; v < kGroupVecs; ++v) sums[h][v] = hn::Zero(di);
    }
    for (int quad = block * kQuadsPerBlock; quad < (block + 1) * kQuadsPerBlock; ++quad) {
      IntVec keys[kGroupVecs];
      for (int v = 0; v < kGroupVecs; ++v) keys[v] = hn::Load(di, scratch.keys + quad * kGroup + v * kLanes);
      for (int h = 0; h < kHeads; ++h) {
        const IntVec query = hn::Set(di, codes[h * kQuads + quad]);
        for (int v = 0; v < kGroupVecs; ++v) sums[h][v] = dot_quad<kByteDots>(sums[h][v], keys[v], query);
      }
    }
    FloatVec scales[kGroupVecs];
    block_scales(key_scales, block, scales);
    for (int h = 0; h < kHeads; ++h) {
      const IntVec offset = hn::Set(di, scratch.offsets[(head + h) * kIndexBlocks + block]);
      const FloatVec scale = hn::Set(d, scratch.scales[(head + h) * kIndexBlocks + block]);
      for (int v = 0; v < kGroupVecs; ++v) {
        const FloatVec dot = hn::ConvertTo(d, hn::Add(finish_quads<kByteDots>(sums[h][v]), offset));
        dots[h][v] = hn::MulAdd(dot, hn::Mul(scales[v], scale),
                                dots[h][v]);  // an exact product: fused or not is the same
      }
    }
  }
  for (int h = 0; h < kHeads; ++h) {
    for (int v = 0; v < kGroupVecs; ++v)
      scores[v] = add_head(scores[v], dots[h][v], scratch.weights[head + h]);
  }
}

/// keys[dim][group] from float32 or BF16 rows.
HWY_INLINE void decode_keys(const IndexKeyPool& pool, std::span<const PageId> pages, const KeyList& list,
                            std::int64_t begin, int count, IndexerScratch& scratch) {
  const FloatTag d;
  for (int i = 0; i < count; ++i) {
    const std::int64_t key = list[begin + i];
    const PageId page = pages[static_cast<std::size_t>(key / pool.rows_per_page)];
    decode_index_key(pool.format, pool.page(static_cast<std::int64_t>(page)), pool.rows_per_page,
                     static_cast<int>(key % pool.rows_per_page), {scratch.rows + i * kIndexDim, kIndexDim});
  }
  auto* keys = reinterpret_cast<float*>(scratch.keys);
  for (int v = 0; v < kGroupVecs; ++v) {
    for (int dim = 0; dim < kIndexDim; dim += 4) {
      FloatVec column[4];
      transpose_four(d, scratch.rows + v * kLanes * kIndexDim + dim, kIndexDim, column[0], column[1],
                     column[2], column[3]);
      for (int i = 0; i < 4; ++i) hn::Store(column[i], d, keys + (dim + i) * kGroup + v * kLanes);
    }
  }
}

template <int kHeads>
HWY_INLINE void score_heads_float(const IndexerScratch& scratch, std::int64_t head,
                                  FloatVec (&scores)[kGroupVecs]) {
  const FloatTag d;
  FloatVec dots[kHeads][kGroupVecs];
  for (int h = 0; h < kHeads; ++h) {
    for (int v = 0; v < kGroupVecs; ++v) dots[h][v] = hn::Zero(d);
  }
  const auto* keys = reinterpret_cast<const float*>(scratch.keys);
  const float* query = scratch.values + head * kIndexDim;
  for (int dim = 0; dim < kIndexDim; ++dim) {
    for (int h = 0; h < kHeads; ++h) {
      const FloatVec q = hn::Set(d, query[h * kIndexDim + dim]);
      for (int v = 0; v < kGroupVecs; ++v) {
        dots[h][v] = hn::MulAdd(q, hn::Load(d, keys + dim * kGroup + v * kLanes), dots[h][v]);
      }
    }
  }
  for (int h = 0; h < kHeads; ++h) {
    for (int v = 0; v < kGroupVecs; ++v)
      scores[v] = add_head(scores[v], dots[h][v], scratch.weights[head + h]);
  }
}

}  // namespace baleen::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // BALEEN_OPS_INDEXER_SCORE_KEYS_INL_H_
