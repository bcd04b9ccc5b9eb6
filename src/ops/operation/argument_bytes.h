/// Bytes and arithmetic that the costs of several operations count in the same way.
#pragma once

#include <cstdint>

#include "tensor/activations.h"

namespace baleen {

/// Of an array of activations, as its element type says.
template <class Float, int Rank>
[[nodiscard]] double bytes_of(const ActivationView<Float, Rank>& view) {
  return static_cast<double>(view.size() * size_of(view.element_type()));
}

/// Of a norm's weight of `width` values: BF16, as checkpoints store it.
[[nodiscard]] constexpr double norm_weight_bytes(std::int64_t width) {
  return 2.0 * static_cast<double>(width);
}

/// Of `num_rows` rows rounded to e4m3 with a byte of scale per `group` values.
[[nodiscard]] constexpr double fp8_row_bytes(double num_rows, std::int64_t width, std::int64_t group) {
  return num_rows * static_cast<double>(width + width / group);
}

/// Scalar operations of a value: squared, added, scaled, weighted.
inline constexpr double kNormOps = 4;
/// Of a value in a norm's backward: squared and added; times the weight and the gradient, added up; three for
/// its own gradient; three for the weight's.
inline constexpr double kNormBackwardOps = 11;
/// The same without a weight.
inline constexpr double kPlainNormBackwardOps = 7;
/// Of a value that is rounded to a format with block scales: absolute maximum, scaling, clamping, conversion.
inline constexpr double kQuantiseOps = 4;
/// Of a rotated pair: four products and two sums.
inline constexpr double kRotatePairOps = 6;

}  // namespace baleen
