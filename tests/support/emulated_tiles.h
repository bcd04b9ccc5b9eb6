/// AMX's tile registers and instructions in plain code, after the pseudo-code of Intel's manual (SDM,
/// TDPBF16PS and the instructions beside it), with the interface of TileRegisters.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "base/check.h"
#include "numeric/bf16.h"
#include "numeric/tile_registers.h"

namespace baleen::test {

class EmulatedTiles {
 public:
  static void configure(const TileConfig& config) {
    state() = {};
    state().config = config;
    state().is_configured = true;
  }
  static void release() { state().is_configured = false; }

  template <int kTile>
  static void zero() {
    std::memset(tile<kTile>(), 0, sizeof(Tile));
  }

  template <int kTile>
  static void load(const void* from, std::int64_t stride) {
    zero<kTile>();
    for (int row = 0; row < rows<kTile>(); ++row) {
      std::memcpy(tile<kTile>()[row], static_cast<const std::byte*>(from) + row * stride, row_bytes<kTile>());
    }
  }

  template <int kTile>
  static void store(void* to, std::int64_t stride) {
    for (int row = 0; row < rows<kTile>(); ++row) {
      std::memcpy(static_cast<std::byte*>(to) + row * stride, tile<kTile>()[row], row_bytes<kTile>());
    }
  }

  template <int kSums, int kLeft, int kRight>
  [[gnu::noinline]] static void add_products() {
#if defined(__x86_64__)
    // Callers leave values in the upper parts of registers, and Intel's processors are then some ten times
    // slower here.
    if (__builtin_cpu_supports("avx")) asm volatile("vzeroupper");
#endif
    BALEEN_CHECK_EQ(rows<kSums>(), rows<kLeft>());
    BALEEN_CHECK_EQ(row_bytes<kSums>(), row_bytes<kRight>());
    BALEEN_CHECK_EQ(row_bytes<kLeft>(), 4 * static_cast<std::size_t>(rows<kRight>()));
    const int num_pairs = rows<kRight>(), num_columns = static_cast<int>(row_bytes<kSums>() / 4);
    float right[16][16][2];
    for (int k = 0; k < num_pairs; ++k) {
      for (int n = 0; n < num_columns; ++n) {
        for (int i = 0; i < 2; ++i) right[k][n][i] = operand(tile<kRight>()[k] + 4 * n + 2 * i);
      }
    }
    for (int m = 0; m < rows<kSums>(); ++m) {
      float chains[16][2] = {};
      for (int k = 0; k < num_pairs; ++k) {
        for (int i = 0; i < 2; ++i) {
          const float left = operand(tile<kLeft>()[m] + 4 * k + 2 * i);
          for (int n = 0; n < num_columns; ++n) {
            chains[n][i] = without_subnormals(std::fma(left, right[k][n][i], chains[n][i]));
          }
        }
      }
      for (int n = 0; n < num_columns; ++n) {
        float sum = 0.0F;
        std::memcpy(&sum, tile<kSums>()[m] + 4 * n, 4);
        sum = without_subnormals(without_subnormals(sum) + without_subnormals(chains[n][0] + chains[n][1]));
        std::memcpy(tile<kSums>()[m] + 4 * n, &sum, 4);
      }
    }
  }

 private:
  using Tile = std::byte[16][64];
  struct State {
    bool is_configured = false;
    TileConfig config;
    Tile tiles[8] = {};
  };

  static State& state() {
    thread_local State of_thread;
    return of_thread;
  }
  template <int kTile>
  static std::byte (*tile())[64] {
    BALEEN_CHECK(state().is_configured);
    return state().tiles[kTile];
  }
  template <int kTile>
  static int rows() {
    return state().config.rows[kTile];
  }
  template <int kTile>
  static std::size_t row_bytes() {
    return state().config.row_bytes[kTile];
  }
  static float without_subnormals(float value) {
    return std::fabs(value) < std::numeric_limits<float>::min() ? std::copysign(0.0F, value) : value;
  }
  static float operand(const std::byte* from) {
    Bf16Bits bits = 0;
    std::memcpy(&bits, from, sizeof(bits));
    return without_subnormals(bf16_to_float(bits));
  }
};

}  // namespace baleen::test
