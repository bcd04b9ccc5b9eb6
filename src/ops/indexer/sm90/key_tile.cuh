/// Keys from their pages into registers: loaded as FP4, dequantised to e4m3 as the A operand of the product
/// with the queries (query_tile.cuh says how and in which order of dims).
#pragma once

#include <array>
#include <cstdint>

#include "cuda/ptx/byte_permute.h"
#include "ops/indexer/sm90/query_tile.cuh"
#include "tensor/ragged_batch.h"

namespace baleen::sm90::index_kernels {

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

/// One block of a key, and the scale codes of all four blocks.
struct PackedRow {
  uint4 codes;
  std::uint32_t scales;
};

/// The e4m3 magnitudes of the eight e2m1 magnitudes times 2^(kHeadroomBits - k), for k from 0 on; the last is
/// all 0.
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

/// A lane's rows of one tile after another. Where a page is a tile (64 rows, the engine's size) finding them
/// is one lookup a tile and their places in the page are fixed.
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

  /// Begins to load the lane's key `i` of the tile that was found last.
  __device__ PackedRow load(int tile, int i) const {
    const int rows_per_page = kPageIsTile ? kTileKeys : 1 << pool_.log2_rows;
    const int row = kPageIsTile ? lane_key_ : key_of(tile, i) & (rows_per_page - 1);
    const int beyond = kPageIsTile ? 8 * i : 0;
    const auto page = std::uint64_t{static_cast<std::uint32_t>(found_[kPageIsTile ? 0 : i])};
    const std::byte* base = pool_.base + page * pool_.page_stride_bytes;
    const std::byte* codes = base + (row * kCodeBytes + block_ * (kBlock / 2));
    const std::byte* scales = base + (rows_per_page * kCodeBytes + row * kBlocks);
    // Past the first-level cache: the row may be new, where the page's lines were seen without it.
    return {__ldcg(reinterpret_cast<const uint4*>(codes) + beyond * kCodeBytes / 16),
            __ldcg(reinterpret_cast<const std::uint32_t*>(scales) + beyond)};
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
__device__ inline void dequantise(std::uint32_t codes, std::uint32_t low_magnitudes,
                                  std::uint32_t high_magnitudes, std::uint32_t& first,
                                  std::uint32_t& second) {
  constexpr std::uint32_t kSigns = 0x80808080u;
  const std::uint32_t selectors = codes & 0x77777777u;
  const std::uint32_t shifted = codes << 4;  // signs of even codes, where the bytes want them
  first = ptx::byte_permute(low_magnitudes, high_magnitudes, selectors) |
          (ptx::byte_permute(codes, shifted, 0x1504) & kSigns);
  second = ptx::byte_permute(low_magnitudes, high_magnitudes, selectors >> 16) |
           (ptx::byte_permute(codes, shifted, 0x3726) & kSigns);
}

/// Fills the part of the A operand of this lane's key `i`; what the key's sums have to be multiplied by.
/// `magnitudes`:
/// kMagnitudes, in shared memory.
__device__ inline float dequantise_row(const PackedRow& row, int i, int block,
                                       const std::uint64_t* magnitudes, std::uint32_t (&a)[kSteps][4]) {
  constexpr std::uint32_t kEvenBytes = 0x00FF00FFu;
  const std::uint32_t pairs = __vmaxu2(row.scales & kEvenBytes, row.scales >> 8 & kEvenBytes);
  const std::uint32_t largest = max(pairs & 0xFFu, pairs >> 16);
  const std::uint32_t own = row.scales >> (8 * block) & 0xFFu;
  const std::uint64_t table = magnitudes[min(largest - own, kNumMagnitudes - 1u)];
  const auto low = static_cast<std::uint32_t>(table), high = static_cast<std::uint32_t>(table >> 32);
  const std::uint32_t words[kSteps] = {row.codes.x, row.codes.y, row.codes.z, row.codes.w};
#pragma unroll
  for (int step = 0; step < kSteps; ++step) dequantise(words[step], low, high, a[step][i], a[step][2 + i]);
  // The float of which 255 is the exponent is infinite and has to become NaN; the others stay as they are.
  const float scale = __uint_as_float(max(largest << 23, 0x00400000u));
  return fmaf(scale, power_of_two(-kHeadroomBits), scale - scale);
}

}  // namespace baleen::sm90::index_kernels
