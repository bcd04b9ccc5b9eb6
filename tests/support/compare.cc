#include "tests/support/compare.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstdint>

namespace baleen::test {
namespace {

bool same_kind(float got, float want) {
  if (std::isnan(want)) return std::isnan(got);
  if (std::isinf(want)) return got == want;
  return std::isfinite(got);
}

}  // namespace

std::string difference(std::span<const float> got, std::span<const float> want, Tolerance tolerance) {
  if (got.size() != want.size()) return fmt::format("{} elements, {} expected", got.size(), want.size());
  double worst = 0.0, dot = 0.0, got_square = 0.0, want_square = 0.0, error_square = 0.0;
  std::size_t worst_at = 0, num_bad = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (!same_kind(got[i], want[i])) return fmt::format("at {}: got {}, want {}", i, got[i], want[i]);
    if (!std::isfinite(want[i])) continue;
    const double g = got[i], w = want[i], error = std::fabs(g - w);
    dot += g * w;
    got_square += g * g;
    want_square += w * w;
    error_square += error * error;
    if (error > tolerance.absolute && error > tolerance.relative * std::fabs(w)) ++num_bad;
    if (error > worst) {
      worst = error;
      worst_at = i;
    }
  }
  const double relative_norm =
      want_square > 0 ? std::sqrt(error_square / want_square) : std::sqrt(error_square);
  const bool elements_good =
      num_bad == 0 || (tolerance.norm > 0 && tolerance.absolute == 0 && tolerance.relative == 0);
  if (elements_good && (tolerance.norm == 0 || relative_norm <= tolerance.norm)) return "";
  const double cosine = got_square > 0 && want_square > 0 ? dot / std::sqrt(got_square * want_square) : 1.0;
  return fmt::format(
      "{} of {} elements out of bounds; worst at {}: got {}, want {} (off by {:.3g}); relative norm {:.3g}, "
      "1 - cosine {:.3g}",
      num_bad, got.size(), worst_at, got[worst_at], want[worst_at], worst, relative_norm, 1 - cosine);
}

std::string bit_difference(std::span<const float> got, std::span<const float> want) {
  if (got.size() != want.size()) return fmt::format("{} elements, {} expected", got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (std::bit_cast<std::uint32_t>(got[i]) != std::bit_cast<std::uint32_t>(want[i])) {
      return fmt::format("at {}: got {} ({:#010x}), want {} ({:#010x})", i, got[i],
                         std::bit_cast<std::uint32_t>(got[i]), want[i],
                         std::bit_cast<std::uint32_t>(want[i]));
    }
  }
  return "";
}

}  // namespace baleen::test
