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

#include "cuda/ptx/wgmma.h"
#include "cuda/scale_group.cuh"
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
  const float scale = power_of_two(kTopExponent - kExactBinades + index);
  return {to_e4m3x4(0.0F, 0.5F * scale, scale, 1.5F * scale),
          to_e4m3x4(2.0F * scale, 3.0F * scale, 4.0F * scale, 6.0F * scale)};
}

/// Of a group with scale code `scale` in a row whose largest is `top`.
__device__ inline int magnitude_table(int scale, int top) { return max(kExactBinades + scale - top, 0); }

/// What the sum of a row whose largest scale code is `top` is multiplied by at the end.
__device__ inline float fp4_row_factor(int top) {
  return e8m0_value(static_cast<std::uint32_t>(top)) * power_of_two(-kTopExponent);
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
  dequantise_e2m1(codes.x, table.low, table.high, to.a[0][half], to.a[0][half + 2]);
  dequantise_e2m1(codes.y, table.low, table.high, to.a[1][half], to.a[1][half + 2]);
  dequantise_e2m1(codes.z, table.low, table.high, to.a[2][half], to.a[2][half + 2]);
  dequantise_e2m1(codes.w, table.low, table.high, to.a[3][half], to.a[3][half + 2]);
}

/// Chunk `j` of two of this thread's 32 codes of FP8 of one row.
__device__ inline void place_fp8(const uint4& codes, int j, int half, WeightFragment& to) {
  to.a[2 * j][half] = codes.x;
  to.a[2 * j][half + 2] = codes.y;
  to.a[2 * j + 1][half] = codes.z;
  to.a[2 * j + 1][half + 2] = codes.w;
}

}  // namespace baleen::sm90
