#include "simulator/report/figure_text.h"

#include <fmt/format.h>

#include <array>
#include <cmath>

namespace baleen {

std::string seconds_text(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.1f} us", 1e6 * seconds);
  if (seconds < 1) return fmt::format("{:.3f} ms", 1e3 * seconds);
  return fmt::format("{:.3f} s", seconds);
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
