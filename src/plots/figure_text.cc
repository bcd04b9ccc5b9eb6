#include "plots/figure_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace baleen {

std::string significant_text(double value) {
  constexpr double kAlmostHundred = 99.95;
  const double size = std::abs(value);
  if (size == 0) return "0";
  if (size < kAlmostHundred) return fmt::format("{:#.3g}", value);
  const double step = std::pow(10, std::max(0.0, std::floor(std::log10(size * (1 + 1e-12))) - 2));
  return fmt::format("{:.0f}", std::round(value / step) * step);
}

std::string seconds_text(double seconds) {
  constexpr double kAlmostThousand = 0.9995;  // three digits of it are 1000
  if (seconds < kAlmostThousand * 1e-3) return significant_text(1e6 * seconds) + " us";
  if (seconds < kAlmostThousand) return significant_text(1e3 * seconds) + " ms";
  return significant_text(seconds) + " s";
}

std::string count_text(double count) {
  constexpr std::array<const char*, 7> kUnits{"", "K", "M", "G", "T", "P", "E"};
  std::size_t unit = 0;
  while (std::abs(count) >= 1000 && unit + 1 < kUnits.size()) {
    count /= 1000;
    ++unit;
  }
  return unit == 0 ? fmt::format("{:.0f}", count) : fmt::format("{:.2f} {}", count, kUnits[unit]);
}

std::string si_text(double value, std::string_view unit) {
  constexpr std::array<const char*, 11> kPrefixes{"p", "n", "µ", "m", "", "k", "M", "G", "T", "P", "E"};
  constexpr int kNone = 4;
  if (value == 0) return fmt::format("0 {}", unit);
  int prefix = kNone;
  // Rounded to three digits first: 999.7 k is 1 M.
  constexpr double kAlmostThousand = 999.5;
  while (std::abs(value) >= kAlmostThousand && prefix + 1 < static_cast<int>(kPrefixes.size())) {
    value /= 1000;
    ++prefix;
  }
  while (std::abs(value) < kAlmostThousand / 1000 && prefix > 0) {
    value *= 1000;
    --prefix;
  }
  const std::string digits =
      std::abs(value) >= 100 ? fmt::format("{:.0f}", value) : fmt::format("{:.3g}", value);
  return fmt::format("{} {}{}", digits, kPrefixes[static_cast<std::size_t>(prefix)], unit);
}

std::string gigabytes_text(double bytes) { return fmt::format("{:.3f}", 1e-9 * bytes); }

std::string positions_text(double positions) {
  constexpr double kKilo = 1024;
  if (positions >= kKilo * kKilo) return fmt::format("{:.3g}M", positions / (kKilo * kKilo));
  if (positions >= kKilo) return fmt::format("{:.4g}K", positions / kKilo);
  return fmt::format("{:.0f}", positions);
}

std::string queries_text(std::int64_t count) {
  return fmt::format("{} quer{}", count, count == 1 ? "y" : "ies");
}

}  // namespace baleen
