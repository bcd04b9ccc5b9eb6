/// Cache rows of each form as producers of keys bring them to BF16: four threads share a row, each has 16
/// dims of every tile whose dims are codes. The 16 bytes that hold these, and the scales, are read a run
/// before they are used; nothing is computed from them until then.
#pragma once

#include "ops/sparse_attention/cuda/row_forms.cuh"
#include "ops/sparse_attention/sm90/attention_tile.cuh"

namespace baleen::sm90 {

inline constexpr int kRowThreads = 4;

/// A row that is to be read. `entry`: not of the window.
struct KeyRow {
  RowPlace place;
  bool entry = false;
};

/// A form has
/// - `kCodeTiles`: tiles whose dims are codes; others are BF16;
/// - `codes`: the 16 bytes that thread `piece` of a row reads of a tile; `load_scales`: its scales;
/// - `store`, by whole warps: the thread's 16 dims of tile `number`, to `tile`;
/// - `store_large`, by whole warps, behind all tiles: what scales above kLargestScale need besides.
template <RowForm kForm>
struct KeyRows;

template <>
struct KeyRows<RowForm::kV4> {
  static constexpr int kCodeTiles = kNope / kTileDims;
  static_assert(kLatentGroup == kTileDims);
  using Scales = uint2;

  __device__ static const std::byte* codes(const KeyRow& row, int tile, int piece) {
    return row.place.data + tile * kLatentGroup + piece * 16;
  }
  __device__ static Scales load_scales(const KeyRow& row, int /*piece*/) {
    if (row.place.data == nullptr) return {0, 0};
    return __ldcg(reinterpret_cast<const uint2*>(row.place.scales));
  }
  __device__ static void store(const uint4& codes, const Scales& scales, int number, std::byte* tile,
                               int entry, int piece) {
    store_dequantised(codes, scale_of(scales, number), tile, entry, piece);
  }
  __device__ static void store_large(const Scales& scales, std::byte (&tiles)[kDimTiles][kTileBytes],
                                     int entry, int piece) {
    constexpr std::uint32_t kLargest = kLargestScale * 0x01010101u, kAllButPadding = 0xFFFFFFu;
    if ((__vcmpgtu4(scales.x, kLargest) | __vcmpgtu4(scales.y & kAllButPadding, kLargest)) == 0) return;
    for (int i = 0; i < kCodeTiles; ++i) multiply_by_rest(scale_of(scales, i), tiles[i], entry, piece);
  }

 private:
  __device__ static std::uint32_t scale_of(const Scales& scales, int tile) {
    return __byte_perm(scales.x, scales.y, static_cast<unsigned>(tile)) & 0xFF;
  }
};

/// Of a position's codes a thread reads its own 16; of an entry's, 8 bytes, those of its neighbour as well.
/// Each of a row's four threads reads the scales of two tiles.
template <>
struct KeyRows<RowForm::kV41> {
  static constexpr int kCodeTiles = kDimTiles;
  /// Of tiles 2 piece and 2 piece + 1. An entry has four a tile, a word each; a position two, both tiles' in
  /// the first word.
  struct Scales {
    uint2 words;
    bool of_entry;
  };

  __device__ static const std::byte* codes(const KeyRow& row, int tile, int piece) {
    return row.place.data +
           (row.entry ? tile * (kTileDims / 2) + piece / 2 * 16 : tile * kTileDims + piece * 16);
  }
  __device__ static Scales load_scales(const KeyRow& row, int piece) {
    Scales scales{{0, 0}, row.entry};
    if (row.place.data == nullptr) return scales;
    if (row.entry) {
      scales.words = __ldcg(reinterpret_cast<const uint2*>(row.place.scales) + piece);
    } else {
      scales.words.x = __ldcg(reinterpret_cast<const std::uint32_t*>(row.place.scales) + piece);
    }
    return scales;
  }
  __device__ static void store(const uint4& codes, const Scales& scales, int number, std::byte* tile,
                               int entry, int piece) {
    const std::uint32_t scale = scale_of(scales, number, piece);
    uint4 words = codes;
    std::uint32_t multiplier;
    if (scales.of_entry) {
      const bool second = piece % 2 != 0;
      entry_codes(second ? codes.z : codes.x, words.x, words.y);
      entry_codes(second ? codes.w : codes.y, words.z, words.w);
      multiplier = entry_multiplier(scale);
    } else {
      multiplier = code_multiplier(scale);
    }
    store_multiplied(words, multiplier, tile, entry, piece);
  }
  __device__ static void store_large(const Scales& scales, std::byte (&tiles)[kDimTiles][kTileBytes],
                                     int entry, int piece) {
    constexpr std::uint32_t kLargest = kLargestScale * 0x01010101u;
    const bool large = !scales.of_entry && __vcmpgtu4(scales.words.x, kLargest) != 0;
    if (!__any_sync(kAllLanes, large)) return;
    for (int i = 0; i < kCodeTiles; ++i) {
      const std::uint32_t scale = scale_of(scales, i, piece);
      if (!scales.of_entry) multiply_by_rest(scale, tiles[i], entry, piece);
    }
  }

 private:
  static_assert(kPositionGroup == kTileDims / 2 && kEntryGroup == kTileDims / 4 &&
                kDimTiles == 2 * kRowThreads);

  /// Of this thread's 16 dims of a tile. By whole warps: another thread of the row has read it.
  __device__ static std::uint32_t scale_of(const Scales& scales, int tile, int piece) {
    const std::uint32_t second = scales.of_entry ? scales.words.y : scales.words.x >> 16;
    const std::uint32_t word =
        __shfl_sync(kAllLanes, tile % 2 == 0 ? scales.words.x : second, tile / 2, kRowThreads);
    return word >> (8 * (scales.of_entry ? piece : piece / 2)) & 0xFF;
  }
};

}  // namespace baleen::sm90
