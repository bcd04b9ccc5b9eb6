#include "numeric/int8_group.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "numeric/e8m0.h"

namespace baleen {
namespace {

bool is_finite(float value) { return std::isfinite(value); }

float largest_magnitude(std::span<const float> values) {
  float largest = 0.0F;
  for (const float value : values) largest = std::max(largest, std::fabs(value));
  return largest;
}

void multiply_and_round(std::span<const float> values, float factor, std::span<std::int8_t> codes) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    codes[i] = static_cast<std::int8_t>(std::nearbyint(values[i] * factor));
  }
}

}  // namespace

float quantise_int8_activations(std::span<const float> values, std::span<std::int8_t> codes) {
  std::ranges::fill(codes, std::int8_t{0});
  if (!std::ranges::all_of(values, is_finite)) return std::numeric_limits<float>::quiet_NaN();
  const float largest = largest_magnitude(values);
  if (largest < kSmallestInt8Activation) return 0.0F;
  multiply_and_round(values, kLargestInt8Activation / largest, codes);
  return largest / kLargestInt8Activation;
}

std::uint8_t quantise_int8_weights(std::span<const float> values, std::span<std::int8_t> codes) {
  std::ranges::fill(codes, std::int8_t{0});
  if (!std::ranges::all_of(values, is_finite)) return kE8m0NaN;
  constexpr float kSmallestScale = 0x1p-126F;
  const std::uint8_t scale =
      e8m0_at_least(std::max(largest_magnitude(values) / kLargestInt8Weight, kSmallestScale));
  multiply_and_round(values, 1.0F / e8m0_to_float(scale), codes);
  return scale;
}

}  // namespace baleen
