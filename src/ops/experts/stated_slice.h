/// Activations of stated sums (stated_sums.h) as the kernels of CPUs read them.
#pragma once

#include <cstdint>

#include "numeric/block_scale.h"

namespace baleen {

/// A slice of 128 activations. X is d0 + 2^7 d1 + 2^14 d2 with digits in [-64, 63], so that products with
/// weights are products of bytes. Weights are bytes of W + 16, unsigned: of each group's sums `excess` is
/// taken away.
struct StatedSlice {
  static constexpr int kNumDigits = 3, kDigitBits = 7;
  static constexpr int kNumGroups = kActivationGroup / kIndexerGroup;

  /// Of the inputs with even numbers, in ascending order, and of the odd ones: as nibbles of bytes lie.
  alignas(64) std::int8_t digits[kNumDigits][2][kActivationGroup / 2];
  std::int32_t excess[kNumGroups][4];  ///< 16 times the sum of the group's X, four times
  /// S * 2^-10 in all, or of each group S_g * 2^-10, four times; NaN where an activation is.
  float scales[kNumGroups][4];
};

struct WeightMatrix;

/// Weight rows that a thread multiplies next, which it fetches to its cache meanwhile; as long as those
/// before.
struct FollowingRows {
  const WeightMatrix* weight = nullptr;  ///< null: not known
  std::int64_t begin = 0;
};

}  // namespace baleen
