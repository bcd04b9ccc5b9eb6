/// Keys from their pages into registers: loaded as FP4, widened to e4m3 as the A operand of the product with the queries
/// (query_tile.cuh says how and in which order of dims).
#pragma once

#include <array>
#include <cstdint>

#include "ops/indexer/query_tile.cuh"
#include "tensor/ragged_batch.h"

namespace baleen::index_kernels {

inline constexpr int kCodeBytes = kDim / 2;  ///< of a key
inline constexpr int kLog2TileKeys = 6;
inline constexpr int kTileKeys = 1 << kLog2TileKeys;  ///< that a warpgroup multiplies at a time
inline constexpr int kRowsPerLane = 2;  ///< of a tile: l / 4 and l / 4 + 8 of the warp's sixteen

/// A layer's pool: pages of 2^log2_rows rows.
struct KeyPages {
  const std::byte* base;
  std::uint32_t page_stride_bytes;
  int log2_rows;
};

/// One block of each of a lane's two keys, and the scale codes of all four blocks.
struct PackedRows {
  uint4 codes[kRowsPerLane];
  std::uint32_t scales[kRowsPerLane];
};

/// The e4m3 magnitudes of the eight e2m1 magnitudes times 2^(kHeadroomBits - k), for k from 0 on; the last is all 0.
inline constexpr int kNumMagnitudes = 20;
using MagnitudeTable = std::array<std::uint64_t, kNumMagnitudes>;

constexpr MagnitudeTable magnitude_table() {
  constexpr std::array<std::uint64_t, 8> kDoubled{0, 1, 2, 3, 4, 6, 8, 12};  // e2m1, times two
  constexpr int kUnitBits = 9;  // in units of the smallest subnormal, 2^-9
  MagnitudeTable table{};
  for (int k = 0; k < kNumMagnitudes; ++k) {
    for (int i = 0; i < 8; ++i) {
      const int shift = kHeadroomBits + kUnitBits - 1 - k;
      std::uint64_t units = shift >= 0 ? kDoubled[i] << shift : kDoubled[i] >> -shift;
      if (shift < 0) {  // to nearest even
        const std::uint64_t lost = kDoubled[i] - (units << -shift), half = std::uint64_t{1} << (-shift - 1);
        if (lost > half || (lost == half && units % 2 != 0)) ++units;
      }
      std::uint64_t code = units;  // subnormal
      if (units >= 8) {
        int log2 = 0;
        while (units >> (log2 + 1) != 0) ++log2;
        code = static_cast<std::uint64_t>(log2 - 2) << 3 | (units >> (log2 - 3) & 7);
      }
      table[k] |= code << (8 * i);
    }
  }
  return table;
}

__constant__ constexpr MagnitudeTable kMagnitudes = magnitude_table();

/// A lane's rows of one tile after another. Where a page is a tile (64 rows, the engine's size) finding them is one lookup a
/// tile and their places in the page are fixed.
template <bool kPageIsTile>
class KeyStream {
 public:
  /// `lane_key`: the lane's first key in tile 0. `num_keys`: beyond the last one it stands in.
  __device__ KeyStream(const KeyPages& pool, const PageId* pages, int lane_key, int block, int num_keys)
      : pool_(pool), pages_(pages), lane_key_(lane_key), block_(block), last_key_(num_keys - 1) {}

  /// Looks up where the tile's keys are.
  __device__ void find(int tile) {
#pragma unroll
    for (int i = 0; i < kLookups; ++i) {
      const int page = kPageIsTile ? min(tile, last_key_ / kTileKeys) : key_of(tile, i) >> pool_.log2_rows;
      found_[i] = pages_[page];
    }
  }

  /// Begins to load the tile that was found last.
  __device__ PackedRows load(int tile) const {
    PackedRows rows;
    const int rows_per_page = kPageIsTile ? kTileKeys : 1 << pool_.log2_rows;
#pragma unroll
    for (int i = 0; i < kRowsPerLane; ++i) {
      const auto page = std::uint64_t{static_cast<std::uint32_t>(found_[kPageIsTile ? 0 : i])};
      const std::byte* base = pool_.base + page * pool_.page_stride_bytes;
      const int row = kPageIsTile ? lane_key_ + 8 * i : key_of(tile, i) & (rows_per_page - 1);
      rows.codes[i] = *reinterpret_cast<const uint4*>(base + row * kCodeBytes + block_ * (kBlock / 2));
      rows.scales[i] =
          *reinterpret_cast<const std::uint32_t*>(base + rows_per_page * kCodeBytes + row * kBlocks);
    }
    return rows;
  }

 private:
  static constexpr int kLookups = kPageIsTile ? 1 : kRowsPerLane;

  __device__ int key_of(int tile, int i) const {
    return min(tile * kTileKeys + lane_key_ + 8 * i, last_key_);
  }

  const KeyPages& pool_;
  const PageId* pages_;
  int lane_key_, block_, last_key_;
  PageId found_[kLookups];
};

/// Eight codes (the first lowest) to eight bytes of e4m3.
__device__ inline void widen(std::uint32_t codes, std::uint32_t low_magnitudes, std::uint32_t high_magnitudes,
                             std::uint32_t& first, std::uint32_t& second) {
  constexpr std::uint32_t kSigns = 0x80808080u;
  const std::uint32_t selectors = codes & 0x77777777u;
  const std::uint32_t shifted = codes << 4;  // signs of even codes, where the bytes want them
  first = __byte_perm(low_magnitudes, high_magnitudes, selectors) |
          (__byte_perm(codes, shifted, 0x1504) & kSigns);
  second = __byte_perm(low_magnitudes, high_magnitudes, selectors >> 16) |
           (__byte_perm(codes, shifted, 0x3726) & kSigns);
}

/// Fills this lane's part of the A operand and says what the sums of its two keys have to be multiplied by.
/// `magnitudes`: kMagnitudes, in shared memory.
__device__ inline void widen_rows(const PackedRows& rows, int block, const std::uint64_t* magnitudes,
                                  std::uint32_t (&a)[kSteps][4], float (&factors)[kRowsPerLane]) {
#pragma unroll
  for (int i = 0; i < kRowsPerLane; ++i) {
    constexpr std::uint32_t kEvenBytes = 0x00FF00FFu;
    const std::uint32_t pairs = __vmaxu2(rows.scales[i] & kEvenBytes, rows.scales[i] >> 8 & kEvenBytes);
    const std::uint32_t largest = max(pairs & 0xFFu, pairs >> 16);
    const std::uint32_t own = rows.scales[i] >> (8 * block) & 0xFFu;
    const std::uint64_t table = magnitudes[min(largest - own, kNumMagnitudes - 1u)];
    const auto low = static_cast<std::uint32_t>(table), high = static_cast<std::uint32_t>(table >> 32);
    const std::uint32_t words[kSteps] = {rows.codes[i].x, rows.codes[i].y, rows.codes[i].z, rows.codes[i].w};
#pragma unroll
    for (int step = 0; step < kSteps; ++step) widen(words[step], low, high, a[step][i], a[step][2 + i]);
    factors[i] = e8m0_value(largest) * power_of_two(-kHeadroomBits);
  }
}

}  // namespace baleen::index_kernels
