#include "numeric/block_scale.h"

#include <algorithm>
#include <cmath>

#include "numeric/e2m1.h"
#include "numeric/e4m3.h"
#include "numeric/e8m0.h"

namespace baleen {
namespace {

/// Largest magnitude; NaN is passed over, infinity is clamped so that the scale stays a number.
float absolute_maximum(std::span<const float> values) {
  float amax = 0.0F;
  for (const float value : values) amax = std::fmax(amax, std::fabs(value));
  return std::fmin(amax, 0x1p127F);
}

}  // namespace

std::uint8_t fp8_scale_code(float amax) { return e8m0_at_least(std::fmax(amax, 1e-4F) * (1.0F / kE4m3Max)); }

std::uint8_t fp4_scale_code(float amax) {
  return e8m0_at_least(std::fmax(amax, 6.0F * 0x1p-126F) * (1.0F / kE2m1Max));
}

std::uint8_t quantise_fp8_block(std::span<const float> values, std::span<std::uint8_t> codes) {
  const std::uint8_t scale = fp8_scale_code(absolute_maximum(values));
  const float inverse = 1.0F / e8m0_to_float(scale);
  for (std::size_t i = 0; i < values.size(); ++i) codes[i] = float_to_e4m3(values[i] * inverse);
  return scale;
}

std::uint8_t quantise_fp4_block(std::span<const float> values, std::span<std::uint8_t> codes) {
  const std::uint8_t scale = fp4_scale_code(absolute_maximum(values));
  const float inverse = 1.0F / e8m0_to_float(scale);
  for (std::size_t i = 0; i < values.size(); ++i) {
    codes[i] = std::isnan(values[i]) ? std::uint8_t{0} : float_to_e2m1(values[i] * inverse);
  }
  return scale;
}

void simulate_fp8(std::span<float> values, int block) {
  for (std::size_t begin = 0; begin < values.size(); begin += static_cast<std::size_t>(block)) {
    const auto part = values.subspan(begin, std::min(values.size() - begin, static_cast<std::size_t>(block)));
    const float scale = e8m0_to_float(fp8_scale_code(absolute_maximum(part)));
    for (float& value : part) value = e4m3_to_float(float_to_e4m3(value / scale)) * scale;
  }
}

void simulate_fp4(std::span<float> values, int block) {
  for (std::size_t begin = 0; begin < values.size(); begin += static_cast<std::size_t>(block)) {
    const auto part = values.subspan(begin, std::min(values.size() - begin, static_cast<std::size_t>(block)));
    const float scale = e8m0_to_float(fp4_scale_code(absolute_maximum(part)));
    for (float& value : part) value = e2m1_to_float(float_to_e2m1(value / scale)) * scale;
  }
}

}  // namespace baleen
