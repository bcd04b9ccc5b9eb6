/// Numbers that come as text or JSON: read whole, inside a stated range, or refused with a sentence that
/// names the range in words. NaN, infinities, trailing characters and values that do not fit the type never
/// pass.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"

namespace baleen {

/// Allowed whole numbers, both ends included.
struct WholeRange {
  std::int64_t min = 0;
  std::int64_t max = std::numeric_limits<std::int64_t>::max();
};

/// Allowed real numbers, both ends included unless `above_min`, which leaves `min` out.
struct RealRange {
  double min = 0;
  double max = std::numeric_limits<double>::max();
  bool above_min = false;

  /// False for NaN.
  [[nodiscard]] bool contains(double value) const {
    return (above_min ? value > min : value >= min) && value <= max;
  }
};

/// `a whole number from 1 to 65,536`
[[nodiscard]] std::string range_text(WholeRange range);
/// `a number from 0 to 1`, `a number above 0, at most 100`, `a number, at least 0`
[[nodiscard]] std::string range_text(RealRange range);

/// 1234567 as `1,234,567`
[[nodiscard]] std::string grouped(std::int64_t value);
[[nodiscard]] std::string grouped(std::uint64_t value);

/// The number that all of `text` spells, decimal; the failure reads `expected RANGE; found "TEXT"`, `text`
/// shortened.
[[nodiscard]] Result<std::int64_t> read_whole(std::string_view text, WholeRange range);
/// The same of [0, 2^64).
[[nodiscard]] Result<std::uint64_t> read_unsigned(std::string_view text);
/// Also takes exponents: 1e-3.
[[nodiscard]] Result<double> read_real(std::string_view text, RealRange range);

/// The product of two numbers that are not negative; nothing where it does not fit.
[[nodiscard]] std::optional<std::int64_t> checked_multiply(std::int64_t a, std::int64_t b);

}  // namespace baleen
