#include "plots/axis.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/check.h"

namespace baleen {
namespace {

constexpr std::array<double, 3> kRoundFactors{1, 2, 5};
constexpr double kSlack = 1e-9;  ///< figures that are equal but for the last bits

/// The largest of 1, 2, 5 times a power of ten up to `value`, or the smallest from `value` on.
double round_figure(double value, bool up) {
  const double decade = std::pow(10, std::floor(std::log10(value) + kSlack));
  double below = decade;
  for (const double factor : kRoundFactors) {
    const double candidate = factor * decade;
    if (candidate <= value * (1 + kSlack)) below = candidate;
    if (up && candidate >= value * (1 - kSlack)) return candidate;
  }
  return up ? 10 * decade : below;
}

}  // namespace

Axis::Axis(Scale scale, double low, double high, std::string label, TickText tick_text)
    : scale_(scale), low_(low), high_(high), label_(std::move(label)), tick_text_(std::move(tick_text)) {
  BALEEN_CHECK(std::isfinite(low) && std::isfinite(high) && low <= high);
  switch (scale_) {
    case Scale::kLinear: {
      low_ = std::min(low_, 0.0);
      high_ = std::max(high_, 0.0);
      if (high_ == low_) high_ = 1;
      constexpr double kPieces = 10;
      const double piece = round_figure((high_ - low_) / kPieces, true);
      low_ = piece * std::floor(low_ / piece + kSlack);
      high_ = piece * std::ceil(high_ / piece - kSlack);
      break;
    }
    case Scale::kDecades:
      BALEEN_CHECK(low > 0);
      low_ = round_figure(low, false);
      high_ = round_figure(high, true);
      if (low_ == high_) high_ *= 10;
      break;
    case Scale::kDoublings:
      BALEEN_CHECK(low > 0);
      low_ = std::exp2(std::floor(std::log2(low)));
      high_ = std::exp2(std::ceil(std::log2(high)));
      if (low_ == high_) high_ *= 2;
      break;
  }
}

double Axis::share_of(double value) const {
  if (scale_ == Scale::kLinear) return (value - low_) / (high_ - low_);
  return std::log(value / low_) / std::log(high_ / low_);
}

bool Axis::spans(double value) const {
  const double share = share_of(value);
  return share >= -kSlack && share <= 1 + kSlack;
}

std::vector<Tick> Axis::ticks(int wanted) const {
  std::vector<Tick> found;
  const auto add = [&](double value) {
    if (value >= low_ * (1 - kSlack) && value <= high_ * (1 + kSlack))
      found.push_back({value, tick_text_(value)});
  };
  if (scale_ == Scale::kLinear) {
    const double step = round_figure((high_ - low_) / wanted, true);
    const double last = std::floor(high_ / step + kSlack);
    for (double i = std::ceil(low_ / step - kSlack); i <= last; ++i) {
      const double value = i == 0 ? 0 : i * step;  // no negative zero
      found.push_back({value, tick_text_(value)});
    }
    return found;
  }
  const double base = scale_ == Scale::kDecades ? 10 : 2;
  const double powers = std::log(high_ / low_) / std::log(base);
  const double stride = std::max(1.0, std::ceil(powers / wanted));
  const bool between = scale_ == Scale::kDecades && 3 * powers <= 2 * wanted;
  for (double power = std::floor(std::log(low_) / std::log(base) + kSlack);
       std::pow(base, power) <= high_ * (1 + kSlack); power += stride) {
    add(std::pow(base, power));
    if (!between) continue;
    add(2 * std::pow(base, power));
    add(5 * std::pow(base, power));
  }
  return found;
}

}  // namespace baleen
