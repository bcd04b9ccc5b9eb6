/// The tile registers of AMX and their instructions (Intel SDM, "TDPBF16PS"). Written as assembly, so that a
/// function need not be compiled for AMX to contain them. The caller has asked `machine_has_bf16_tiles`.
#pragma once

#include <cstdint>

namespace baleen {

/// What LDTILECFG reads: of each tile, rows and bytes of a row, at most 16 and 64.
struct alignas(64) TileConfig {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t row_bytes[16] = {};
  std::uint8_t rows[16] = {};
};
static_assert(sizeof(TileConfig) == 64);

/// Eight tiles of 16 rows; 0 to 5 with 64 bytes a row, or sums and columns of fewer: 0 to 3 are for sums, 4
/// and 5 for left operands [16, 32], 6 and 7 for right operands, [16 pairs, columns, 2], and have
/// `column_bytes` a row like the sums.
[[nodiscard]] inline TileConfig tiles_of_products(std::uint16_t column_bytes) {
  TileConfig config;
  for (int tile = 0; tile < 8; ++tile) {
    config.rows[tile] = 16;
    config.row_bytes[tile] = tile == 4 || tile == 5 ? 64 : column_bytes;
  }
  return config;
}

#if defined(__x86_64__)

/// The tiles of the calling thread.
struct TileRegisters {
  static void configure(const TileConfig& config) { asm volatile("ldtilecfg %0" : : "m"(config)); }
  /// Without, every switch between threads saves 8 KB.
  static void release() { asm volatile("tilerelease"); }

  template <int kTile>
  static void zero() {
    asm volatile("tilezero %%tmm%c0" : : "i"(kTile));
  }
  /// Rows `stride` bytes apart.
  template <int kTile>
  static void load(const void* from, std::int64_t stride) {
    asm volatile("tileloadd (%1,%2,1), %%tmm%c0" : : "i"(kTile), "r"(from), "r"(stride) : "memory");
  }
  template <int kTile>
  static void store(void* to, std::int64_t stride) {
    asm volatile("tilestored %%tmm%c0, (%1,%2,1)" : : "i"(kTile), "r"(to), "r"(stride) : "memory");
  }
  /// sums[m][n] += the products of left[m][2 k] with right[k][n][0], plus those of left[m][2 k + 1] with
  /// right[k][n][1]: each a chain of float32 multiply-adds over ascending k from zero. Subnormal operands and
  /// results count as zero.
  template <int kSums, int kLeft, int kRight>
  static void add_products() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(kSums), "i"(kLeft), "i"(kRight));
  }
};

#endif

}  // namespace baleen
