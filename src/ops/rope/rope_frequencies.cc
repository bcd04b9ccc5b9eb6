// Every product is rounded to float32 before it is used; the build keeps the compiler from fusing
// (-ffp-contract=off).

#include "ops/rope/rope_frequencies.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/check.h"

namespace baleen {
namespace {

/// Weight of the divided frequency per pair: 0 up to the pair that rotates `beta_fast` times in the original
/// context, 1 from the one that rotates `beta_slow` times, linear between. The ends are found in float64, the
/// ramp in float32.
std::vector<float> yarn_ramp(float base, int rotary_dim, const YarnParams& yarn) {
  const auto pair_that_turns = [&](double rotations) {
    const double wavelengths =
        static_cast<double>(yarn.original_positions) / (rotations * 2.0 * std::numbers::pi);
    return rotary_dim * std::log(wavelengths) / (2.0 * std::log(static_cast<double>(base)));
  };
  const double low = std::max(std::floor(pair_that_turns(yarn.beta_fast)), 0.0);
  double high = std::min(std::ceil(pair_that_turns(yarn.beta_slow)), rotary_dim - 1.0);
  if (low == high) high += 0.001;
  std::vector<float> ramp(static_cast<std::size_t>(rotary_dim / 2));
  for (std::size_t i = 0; i < ramp.size(); ++i) {
    const float at = (static_cast<float>(i) - static_cast<float>(low)) / static_cast<float>(high - low);
    ramp[i] = std::clamp(at, 0.0F, 1.0F);
  }
  return ramp;
}

}  // namespace

std::vector<float> rope_frequencies(float base, int rotary_dim, const YarnParams* yarn) {
  std::vector<float> frequencies(static_cast<std::size_t>(rotary_dim / 2));
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    frequencies[i] = 1.0F / std::pow(base, static_cast<float>(2 * i) / static_cast<float>(rotary_dim));
  }
  if (yarn == nullptr) return frequencies;
  const std::vector<float> ramp = yarn_ramp(base, rotary_dim, *yarn);
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    const float kept = 1.0F - ramp[i];
    frequencies[i] = frequencies[i] / yarn->factor * (1.0F - kept) + frequencies[i] * kept;
  }
  return frequencies;
}

void rope_angles(std::span<const float> frequencies, std::int64_t position, std::span<float> cosine,
                 std::span<float> sine) {
  BALEEN_DCHECK(cosine.size() == frequencies.size() && sine.size() == frequencies.size());
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    const float angle = static_cast<float>(position) * frequencies[i];
    // float64 functions, rounded once: the same table on every machine and with every C library.
    cosine[i] = static_cast<float>(std::cos(static_cast<double>(angle)));
    sine[i] = static_cast<float>(std::sin(static_cast<double>(angle)));
  }
}

void rotate_pairs(std::span<float> values, std::span<const float> cosine, std::span<const float> sine) {
  BALEEN_DCHECK(values.size() == 2 * cosine.size() && cosine.size() == sine.size());
  for (std::size_t i = 0; i < cosine.size(); ++i) {
    const float a = values[2 * i];
    const float b = values[2 * i + 1];
    values[2 * i] = a * cosine[i] - b * sine[i];
    values[2 * i + 1] = a * sine[i] + b * cosine[i];
  }
}

}  // namespace baleen
