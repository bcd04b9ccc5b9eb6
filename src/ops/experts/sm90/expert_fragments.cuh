/// A operands of FP8 instructions from tiles of packed weights in shared memory.
///
/// A warpgroup multiplies 64 weight rows by 128 inputs (a *slice*) in four instructions. Thread 4 g + q of
/// warp w has row 8 w + fragment_row(g) of both halves of the tile, and of each the slice's inputs [32 q, 32
/// q + 32): one scale group. They lie together in memory, so a thread loads them in one or two accesses, and
/// a group's scale concerns one thread.
/// Instruction i takes inputs 32 q + 8 i .. + 7 of every thread; the activations are laid out to match
/// (`product_word`).
///
/// FP4: e2m1 times a power of two is an e4m3 number, exactly, over 15 binades. A row's largest scale is given
/// 2^6 (6 * 64 = 384 of e4m3's 448), the others what they have beneath it, down to 2^-8 (0.5 * 2^-8 is the
/// smallest e4m3). So the row's products need one more factor at their end, the largest scale / 64, whatever
/// K.
#pragma once

#include <cstdint>

#include "cuda/ptx/byte_permute.h"
#include "cuda/ptx/wgmma.h"
#include "cuda/row_quantise.cuh"
#include "numeric/weight_format.h"

namespace baleen::sm90 {

/// Of four instructions.
struct WeightFragment {
  std::uint32_t a[4][4];
};

/// Behind the wait for the instructions that read it: until then its registers have no other use.
__device__ inline void hold_operand(const WeightFragment& fragment) {
#pragma unroll
  for (const auto& instruction : fragment.a) {
#pragma unroll
    for (const std::uint32_t word : instruction) ptx::wgmma_hold_operand(word);
  }
}

/// e4m3 codes of the eight magnitudes of e2m1, times a power of two.
struct ScaledMagnitudes {
  std::uint32_t low;   ///< 0, 0.5, 1, 1.5
  std::uint32_t high;  ///< 2, 3, 4, 6
};

inline constexpr int kExactBinades = 15;                    ///< scales of a row that are dequantised exactly
inline constexpr int kMagnitudeTables = kExactBinades + 1;  ///< the first is of zeros: scales beneath them
inline constexpr int kTopExponent = 6;                      ///< a row's largest scale becomes 2^6

/// Table `index` of kMagnitudeTables.
__device__ inline ScaledMagnitudes scaled_magnitudes(int index) {
  if (index == 0) return {0, 0};
  const float scale =
      __uint_as_float(static_cast<std::uint32_t>(127 + kTopExponent - kExactBinades + index) << 23);
  return {to_e4m3x4(0.0F, 0.5F * scale, scale, 1.5F * scale),
          to_e4m3x4(2.0F * scale, 3.0F * scale, 4.0F * scale, 6.0F * scale)};
}

/// Of a group with scale code `scale` in a row whose largest is `top`.
__device__ inline int magnitude_table(int scale, int top) { return max(kExactBinades + scale - top, 0); }

/// What the sum of a row whose largest scale code is `top` is multiplied by at the end.
__device__ inline float fp4_row_factor(int top) {
  constexpr int kNaN = 255;
  constexpr float kSmallest = 0x1p-127F;  // code 0
  const float largest = top == kNaN ? __uint_as_float(0x7FC00000u)
                        : top == 0  ? kSmallest
                                    : __uint_as_float(static_cast<std::uint32_t>(top) << 23);
  return largest * (1.0F / static_cast<float>(1 << kTopExponent));
}

/// Eight codes of e2m1 (lowest nibble first) to eight of e4m3.
__device__ inline void dequantise_e2m1(std::uint32_t codes, const ScaledMagnitudes& table,
                                       std::uint32_t& first, std::uint32_t& second) {
  constexpr std::uint32_t kSigns = 0x80808080u;
  const std::uint32_t magnitudes = codes & 0x77777777u;
  // Signs of codes 1, 3, 5, 7 are at the top of a byte; of 0, 2, 4, 6 they are after a shift.
  const std::uint32_t even = codes << 4;
  first = ptx::byte_permute(table.low, table.high, magnitudes) |
          (ptx::byte_permute<0x5140>(even, codes) & kSigns);
  second = ptx::byte_permute(table.low, table.high, magnitudes >> 16) |
           (ptx::byte_permute<0x7362>(even, codes) & kSigns);
}

/// Of eight rows, that of the g-th quarter of a warp. Two neighbours' differ in bits 0 and 2, so that eight
/// threads find their chunks in different banks, in either format: in a tile that TMA has swizzled, chunk c
/// (16 bytes) of row r is at c ^ r % 8.
__device__ inline int fragment_row(int g) { return (g >> 1) ^ (g & 1) * 5; }

__device__ inline uint4 load_chunk(const std::uint8_t* row, int row_in_tile, int chunk) {
  return *reinterpret_cast<const uint4*>(row + 16 * (chunk ^ (row_in_tile & 7)));
}

/// This thread's 32 codes of FP4 of one row and slice, dequantised with `table`.
__device__ inline void dequantise_fp4(const uint4& codes, const ScaledMagnitudes& table, int half,
                                      WeightFragment& to) {
  dequantise_e2m1(codes.x, table, to.a[0][half], to.a[0][half + 2]);
  dequantise_e2m1(codes.y, table, to.a[1][half], to.a[1][half + 2]);
  dequantise_e2m1(codes.z, table, to.a[2][half], to.a[2][half + 2]);
  dequantise_e2m1(codes.w, table, to.a[3][half], to.a[3][half + 2]);
}

/// Chunk `j` of two of this thread's 32 codes of FP8 of one row.
__device__ inline void place_fp8(const uint4& codes, int j, int half, WeightFragment& to) {
  to.a[2 * j][half] = codes.x;
  to.a[2 * j][half + 2] = codes.y;
  to.a[2 * j + 1][half] = codes.z;
  to.a[2 * j + 1][half + 2] = codes.w;
}

/// Of slice `slice` of two.
__device__ inline void load_fp4_row(const std::uint8_t* row, int row_in_tile, int slice, int q,
                                    const ScaledMagnitudes& table, int half, WeightFragment& to) {
  dequantise_fp4(load_chunk(row, row_in_tile, 4 * slice + q), table, half, to);
}

__device__ inline void load_fp8_row(const std::uint8_t* row, int row_in_tile, int q, int half,
                                    WeightFragment& to) {
#pragma unroll
  for (int j = 0; j < 2; ++j) place_fp8(load_chunk(row, row_in_tile, 2 * q + j), j, half, to);
}

}  // namespace baleen::sm90
