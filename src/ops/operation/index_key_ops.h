/// What queries and keys of the indexer have done to them alike, behind their rotation.
#pragma once

#include <bit>
#include <cstdint>

#include "numeric/index_key.h"

namespace baleen {

/// Scalar operations of one vector's Hadamard transform: log2(dim) additions a value.
[[nodiscard]] constexpr double hadamard_ops(const IndexKeyFormat& format) {
  return format.dim * static_cast<double>(std::bit_width(static_cast<std::uint32_t>(format.dim)) - 1);
}

/// Of one vector's rounding to FP4 in `released`: absolute maximum, scaling, clamping, conversion, packing.
[[nodiscard]] constexpr double index_key_rounding_ops(const IndexKeyFormat& format) {
  constexpr double kFp4Ops = 5;
  return format.precision == Precision::kReleased ? kFp4Ops * format.dim : 0;
}

/// Of one vector: the transform and the rounding.
[[nodiscard]] constexpr double index_key_ops(const IndexKeyFormat& format) {
  return hadamard_ops(format) + index_key_rounding_ops(format);
}

}  // namespace baleen
