/// Integers of eight bits with a scale for 32 of them: the numbers of the variants named `int8`. No released
/// file and no rule of the model has them; what they cost in accuracy is measured (docs/performance.md).
#pragma once

#include <cstdint>
#include <span>

namespace baleen {

inline constexpr int kInt8Group = 32;
inline constexpr int kLargestInt8Activation = 127;
inline constexpr int kLargestInt8Weight = 63;
/// Activations of a group whose largest magnitude is below this count as zero.
inline constexpr float kSmallestInt8Activation = 0x1p-100F;

/// Activations: codes[i] = the integer nearest to values[i] * (127 / amax), ties to even; returns the scale
/// amax / 127. Of a NaN or an infinity the scale is NaN and the codes are zero. `codes` as long as `values`.
float quantise_int8_activations(std::span<const float> values, std::span<std::int8_t> codes);

/// Weights: codes[i] = the integer nearest to values[i] / s, where s is the smallest power of two for which
/// none is beyond +-63; returns the e8m0 code of s, which is that of NaN if a value is not finite.
///
/// Of e4m3 values with one power of two as their scale, all are exact that are at least a quarter of that
/// power of two which the group's largest magnitude has as its leading bit: they have four significant bits,
/// and the largest is 32 units or more. The others are off by at most half a unit, 1/64 of the largest.
std::uint8_t quantise_int8_weights(std::span<const float> values, std::span<std::int8_t> codes);

}  // namespace baleen
