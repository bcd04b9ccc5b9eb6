/// Rows rounded as FP8 and FP4 weights want their activations: e4m3 codes with a power-of-two scale per 128
/// values. (source: forward pass 2.3, Q8(x, 128))
#pragma once

#include <cstdint>

namespace baleen {

/// Beside the rows themselves where the operation that makes them can write both; `codes` null: there are
/// none, and whoever needs them makes them. Not owned.
struct Fp8Rows {
  std::uint8_t* codes = nullptr;  ///< [T, K], 16-byte aligned
  float* scales =
      nullptr;  ///< [K / 128, scale_stride], 16-byte aligned: of row t, block b at b * scale_stride + t
  std::int64_t scale_stride = 0;  ///< >= T, a multiple of 4

  [[nodiscard]] explicit operator bool() const { return codes != nullptr; }
};

}  // namespace baleen
