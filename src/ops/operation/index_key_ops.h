/// What queries and keys of the indexer have done to them alike, behind their rotation.
#pragma once

#include <bit>
#include <cstdint>

#include "numeric/index_key.h"

namespace baleen {

/// Scalar operations of one vector: a Hadamard transform (log2(dim) additions a value), and in `released` a rounding to FP4
/// (absolute maximum, scaling, clamping, conversion, packing).
[[nodiscard]] constexpr double index_key_ops(const IndexKeyFormat& format) {
  constexpr double kFp4Ops = 5;
  const double hadamard = std::bit_width(static_cast<std::uint32_t>(format.dim)) - 1;
  return format.dim * (hadamard + (format.precision == Precision::kReleased ? kFp4Ops : 0));
}

}  // namespace baleen
