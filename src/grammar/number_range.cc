#include "grammar/number_range.h"

#include <charconv>
#include <compare>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

namespace baleen {
namespace {

/// Where a number stands that is being written, without its sign: how many digits and how they compare with
/// the bounds so far. Before the point the lengths decide, after it the digits.
struct Written {
  enum class Part : std::uint8_t { kStart, kSign, kZero, kWhole, kPoint, kFraction };
  Part part = Part::kStart;
  bool negative = false;
  std::size_t digits = 0;                   ///< how many digits this part has
  int against_least = 0, against_most = 0;  ///< -1, 0, 1: the digits so far against as many of the bound's
  auto operator<=>(const Written&) const = default;
};

using Part = Written::Part;

int digit_at(const std::string& digits, std::size_t i) { return i < digits.size() ? digits[i] - '0' : 0; }

class RangeBuilder {
 public:
  RangeBuilder(const NumberBounds& bounds, bool integer) : bounds_(bounds), integer_(integer) {}

  CharAutomaton run() {
    number_of({});
    for (std::size_t i = 0; i < all_.size(); ++i) {
      const Written at = all_[i];
      CharAutomaton::State state{.accepts = may_end(at)};
      for (char32_t c : std::u32string_view(U"-.0123456789")) {
        if (const std::optional<Written> next = after(at, c))
          state.edges.push_back({{c, c}, number_of(*next)});
      }
      result_.states.push_back(std::move(state));
    }
    trim(result_);
    return std::move(result_);
  }

 private:
  std::uint32_t number_of(const Written& written) {
    const auto [found, is_new] = numbers_.try_emplace(written, static_cast<std::uint32_t>(all_.size()));
    if (is_new) all_.push_back(written);
    return found->second;
  }

  std::optional<Written> after(Written at, char32_t c) const {
    if (c == U'-') {
      if (at.part != Part::kStart) return std::nullopt;
      at.part = Part::kSign;
      at.negative = true;
      return at;
    }
    if (c == U'.') {
      if (integer_ || (at.part != Part::kZero && at.part != Part::kWhole)) return std::nullopt;
      at.against_least = whole_against(at, bounds_.least, at.against_least);
      at.against_most = whole_against(at, bounds_.most, at.against_most);
      at.part = Part::kPoint;
      at.digits = 0;
      return at;
    }
    const int digit = static_cast<int>(c - U'0');
    switch (at.part) {
      case Part::kStart:
      case Part::kSign:
        at.part = digit == 0 ? Part::kZero : Part::kWhole;
        if (digit == 0) return at;
        break;
      case Part::kZero:
        return std::nullopt;
      case Part::kWhole:
        if (at.digits == kMaxWholeDigits) return std::nullopt;
        break;
      case Part::kPoint:
      case Part::kFraction:
        if (at.digits == kMaxFractionDigits) return std::nullopt;
        at.part = Part::kFraction;
        break;
    }
    compare(at, bounds_.least, digit, at.against_least);
    compare(at, bounds_.most, digit, at.against_most);
    ++at.digits;
    return at;
  }

  static void compare(const Written& at, const std::optional<NumberBounds::Bound>& bound, int digit,
                      int& against) {
    if (!bound || against != 0) return;
    const int other =
        digit_at(at.part == Part::kFraction ? bound->value.fraction : bound->value.whole, at.digits);
    against = digit < other ? -1 : digit > other ? 1 : 0;
  }

  /// The whole part against the bound's, sizes only (no signs); its digits so far compared as `digits`.
  static int whole_against(const Written& at, const std::optional<NumberBounds::Bound>& bound, int digits) {
    if (!bound) return 0;
    const std::size_t size = bound->value.whole.size();
    if (at.digits != size) return at.digits < size ? -1 : 1;
    return digits;
  }

  /// The number so far against the bound, signs included.
  static int against(const Written& at, const NumberBounds::Bound& bound, int digits) {
    int sizes = digits;
    if (at.part == Part::kZero || at.part == Part::kWhole) sizes = whole_against(at, bound, digits);
    const std::size_t done = at.part == Part::kFraction ? at.digits : 0;
    if (sizes == 0 && bound.value.fraction.size() > done) sizes = -1;
    const bool bound_is_zero = bound.value.whole.empty() && bound.value.fraction.empty();
    if (!bound_is_zero && at.negative != bound.value.negative) return bound.value.negative ? 1 : -1;
    return at.negative ? -sizes : sizes;
  }

  bool may_end(const Written& at) const {
    if (at.part != Part::kZero && at.part != Part::kWhole && at.part != Part::kFraction) return false;
    if (bounds_.least) {
      const int order = against(at, *bounds_.least, at.against_least);
      if (order < 0 || (order == 0 && bounds_.least->exclusive)) return false;
    }
    if (bounds_.most) {
      const int order = against(at, *bounds_.most, at.against_most);
      if (order > 0 || (order == 0 && bounds_.most->exclusive)) return false;
    }
    return true;
  }

  const NumberBounds& bounds_;
  bool integer_;
  std::map<Written, std::uint32_t> numbers_;
  std::vector<Written> all_;
  CharAutomaton result_;
};

}  // namespace

std::optional<Decimal> parse_decimal(std::string_view number) {
  Decimal decimal;
  if (number.starts_with('-')) {
    decimal.negative = true;
    number.remove_prefix(1);
  }
  const std::size_t e = number.find_first_of("eE");
  int exponent = 0;
  if (e != std::string_view::npos) {
    std::string_view text = number.substr(e + 1);
    if (text.starts_with('+')) text.remove_prefix(1);
    if (std::from_chars(text.data(), text.data() + text.size(), exponent).ec != std::errc{})
      return std::nullopt;
    static constexpr int kMaxExponent = 400;
    if (exponent < -kMaxExponent || exponent > kMaxExponent) return std::nullopt;
    number = number.substr(0, e);
  }
  const std::size_t point = number.find('.');
  std::string digits(number.substr(0, point));
  auto whole = static_cast<std::ptrdiff_t>(digits.size()) + exponent;
  if (point != std::string_view::npos) digits += number.substr(point + 1);
  if (digits.empty() || digits.find_first_not_of("0123456789") != std::string::npos) return std::nullopt;
  if (whole < 0) {
    digits.insert(0, static_cast<std::size_t>(-whole), '0');
    whole = 0;
  }
  if (digits.size() < static_cast<std::size_t>(whole)) digits.resize(static_cast<std::size_t>(whole), '0');
  decimal.whole = digits.substr(0, static_cast<std::size_t>(whole));
  decimal.fraction = digits.substr(static_cast<std::size_t>(whole));
  decimal.whole.erase(0, std::min(decimal.whole.find_first_not_of('0'), decimal.whole.size()));
  while (decimal.fraction.ends_with('0')) decimal.fraction.pop_back();
  if (decimal.whole.empty() && decimal.fraction.empty()) decimal.negative = false;
  if (decimal.whole.size() > kMaxWholeDigits || decimal.fraction.size() > kMaxFractionDigits)
    return std::nullopt;
  return decimal;
}

int compare(const Decimal& a, const Decimal& b) {
  if (a.negative != b.negative) return a.negative ? -1 : 1;
  int sizes = 0;
  if (a.whole.size() != b.whole.size()) {
    sizes = a.whole.size() < b.whole.size() ? -1 : 1;
  } else {
    sizes = (a.whole + a.fraction).compare(b.whole + b.fraction);
  }
  return a.negative ? -sizes : sizes;
}

CharAutomaton bounded_number(const NumberBounds& bounds, bool integer) {
  return RangeBuilder(bounds, integer).run();
}

}  // namespace baleen
