#include "base/number.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <system_error>

#include "base/quoted_text.h"

namespace baleen {
namespace {

constexpr double kLargestPlain = 1e15;

/// The number all of `text` spells, if it spells one of this type.
template <class T>
std::optional<T> whole_text(std::string_view text) {
  T value{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

/// Digits in groups of three from the right.
std::string with_commas(std::string digits) {
  const std::size_t first = digits.starts_with('-') ? 1 : 0;
  for (std::size_t at = digits.size(); at > first + 3;) digits.insert(at -= 3, 1, ',');
  return digits;
}

std::string real_text(double value) {
  const bool whole = value == std::floor(value) && std::fabs(value) < kLargestPlain;
  return whole ? grouped(static_cast<std::int64_t>(value)) : fmt::format("{:g}", value);
}

}  // namespace

std::string grouped(std::int64_t value) { return with_commas(std::to_string(value)); }
std::string grouped(std::uint64_t value) { return with_commas(std::to_string(value)); }

std::string range_text(WholeRange range) {
  return fmt::format("a whole number from {} to {}", grouped(range.min), grouped(range.max));
}

std::string range_text(RealRange range) {
  const bool bounded = range.max < std::numeric_limits<double>::max();
  const std::string min = real_text(range.min), max = real_text(range.max);
  if (range.above_min)
    return bounded ? fmt::format("a number above {}, at most {}", min, max)
                   : fmt::format("a number above {}", min);
  return bounded ? fmt::format("a number from {} to {}", min, max)
                 : fmt::format("a number, at least {}", min);
}

Result<std::int64_t> read_whole(std::string_view text, WholeRange range) {
  const auto value = whole_text<std::int64_t>(text);
  if (!value || *value < range.min || *value > range.max)
    return failure("expected {}; found {}", range_text(range), quoted_text(text));
  return *value;
}

Result<std::uint64_t> read_unsigned(std::string_view text) {
  const auto value = whole_text<std::uint64_t>(text);
  if (!value) {
    return failure("expected a whole number from 0 to {}; found {}",
                   grouped(std::numeric_limits<std::uint64_t>::max()), quoted_text(text));
  }
  return *value;
}

Result<double> read_real(std::string_view text, RealRange range) {
  const auto value = whole_text<double>(text);
  if (!value || !std::isfinite(*value) || !range.contains(*value))
    return failure("expected {}; found {}", range_text(range), quoted_text(text));
  return *value;
}

std::optional<std::int64_t> checked_multiply(std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  if (__builtin_mul_overflow(a, b, &result)) return std::nullopt;
  return result;
}

}  // namespace baleen
