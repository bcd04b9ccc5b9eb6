/// Floats as unsigned integers of the same order, for reductions and searches over their bits.
#pragma once

#include <cstdint>

namespace baleen {

/// Below the order of every float that is not NaN; no such float has it.
inline constexpr std::uint32_t kBelowAllFloats = 0;

/// a < b exactly where order_of_float(a) < order_of_float(b); both zeros have one order. `value` is not NaN.
__device__ inline std::uint32_t order_of_float(float value) {
  constexpr std::uint32_t kSign = 0x80000000u;
  const std::uint32_t bits = __float_as_uint(__fadd_rn(value, 0.0F));  // -0 becomes +0
  return (bits & kSign) != 0 ? ~bits : bits | kSign;
}

/// The float of an order, +0 for both zeros.
__device__ inline float float_of_order(std::uint32_t order) {
  constexpr std::uint32_t kSign = 0x80000000u;
  return __uint_as_float((order & kSign) != 0 ? order & ~kSign : ~order);
}

}  // namespace baleen
