#include "simulator/serving/draws.h"

#include <cmath>
#include <numbers>

#include "sampling/philox.h"

namespace baleen {
namespace {

/// Draws of one number: `gamma` may need many.
constexpr std::uint64_t kDrawsEach = 256;
constexpr std::uint64_t kSeedStep = 0x9E3779B97F4A7C15;

}  // namespace

Draws::Draws(std::uint64_t seed, DrawFor purpose)
    : seed_(seed + kSeedStep * (static_cast<std::uint64_t>(purpose) + 1)) {}

double Draws::uniform(std::uint64_t number) const { return uniform_draw(seed_, number * kDrawsEach); }

double Draws::exponential(std::uint64_t number) const { return -std::log1p(-uniform(number)); }

double Draws::normal(std::uint64_t number) const {
  const double radius = std::sqrt(2 * exponential(number));
  return radius * std::cos(2 * std::numbers::pi * uniform_draw(seed_, number * kDrawsEach + 1));
}

double Draws::gamma(std::uint64_t number, double shape) const {
  // A shape below 1 is that of shape + 1, scaled by a power of a uniform draw.
  const double boosted = shape < 1 ? shape + 1 : shape;
  const double d = boosted - 1.0 / 3, c = 1 / std::sqrt(9 * d);
  const std::uint64_t first = number * kDrawsEach;
  double value = d;  // what is left when luck never comes: each attempt succeeds with 95% at least
  for (std::uint64_t attempt = 0; attempt + 1 < kDrawsEach / 3; ++attempt) {
    const std::uint64_t at = first + 3 * attempt;
    const double radius = std::sqrt(-2 * std::log1p(-uniform_draw(seed_, at)));
    const double x = radius * std::cos(2 * std::numbers::pi * uniform_draw(seed_, at + 1));
    const double v = std::pow(1 + c * x, 3);
    if (v <= 0) continue;
    const double u = 1 - uniform_draw(seed_, at + 2);
    if (std::log(u) < 0.5 * x * x + d - d * v + d * std::log(v)) {
      value = d * v;
      break;
    }
  }
  if (shape < 1) value *= std::pow(1 - uniform_draw(seed_, first + kDrawsEach - 1), 1 / shape);
  return value / shape;
}

}  // namespace baleen
