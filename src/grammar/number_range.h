/// Numbers between bounds, written as decimals.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "grammar/char_automaton.h"

namespace baleen {

/// A decimal: digits before and after the point, without zeros that say nothing.
struct Decimal {
  bool negative = false;
  std::string whole, fraction;  ///< zero: both empty
};

/// Reads a JSON number ("-12.50", "1e3"). Nothing: not finite, or more than kMaxWholeDigits digits before the
/// point or kMaxFractionDigits after.
[[nodiscard]] std::optional<Decimal> parse_decimal(std::string_view number);

inline constexpr std::size_t kMaxWholeDigits = 20;
inline constexpr std::size_t kMaxFractionDigits = 24;

/// Negative, 0 or positive as a < b, a = b or a > b.
[[nodiscard]] int compare(const Decimal& a, const Decimal& b);

struct NumberBounds {
  struct Bound {
    Decimal value;
    bool exclusive = false;
  };
  std::optional<Bound> least, most;
};

/// The numbers within, without exponents, of at most kMaxWholeDigits and kMaxFractionDigits digits.
[[nodiscard]] CharAutomaton bounded_number(const NumberBounds& bounds, bool integer);

/// The multiples of `step`, without exponents and with no more digits after the point than `step` has.
/// Nothing: `step` is not positive, or holds more than 10,000 units of its last digit.
[[nodiscard]] std::optional<CharAutomaton> multiples_of(const Decimal& step);

}  // namespace baleen
