/// Rows rounded as FP8 and FP4 weights want their activations: e4m3 codes with a power-of-two scale per group
/// of values, 128 of DeepSeek-V4 and 32 of V4.1. (source: forward pass 2.3, Q8(x, 128); releases 2.4)
#pragma once

#include <cstdint>

#include "numeric/block_scale.h"

namespace baleen {

/// Beside the rows themselves where the operation that makes them can write both; `codes` null: there are
/// none, and whoever needs them makes them. Not owned.
struct Fp8Rows {
  std::uint8_t* codes = nullptr;  ///< [T, K], 16-byte aligned
  /// [K / group, scale_stride], 16-byte aligned: of row t, group b at b * scale_stride + t
  float* scales = nullptr;
  std::int64_t scale_stride = 0;  ///< >= T, a multiple of 4
  int group = kActivationGroup;   ///< values that share a scale

  [[nodiscard]] explicit operator bool() const { return codes != nullptr; }
};

}  // namespace baleen
