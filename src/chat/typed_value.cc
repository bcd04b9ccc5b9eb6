#include "chat/typed_value.h"

#include <algorithm>
#include <span>
#include <vector>

#include "chat/argument_types.h"
#include "chat/attributes.h"
#include "chat/call_check.h"
#include "chat/json_repair.h"
#include "chat/spellings.h"
#include "chat/tag.h"
#include "chat/white_space.h"

namespace baleen {
namespace {

using Types = ArgumentTypes;

bool is_digits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

bool is_one_of(std::string_view word, std::span<const std::string_view> words) {
  return std::ranges::find(words, word) != words.end();
}

/// Digits in groups of three: 1,000. One comma alone may be a decimal one, one space may stand between two
/// numbers, unless the number is an integer.
std::optional<std::string> without_separators(std::string_view digits, char separator, bool only_integers) {
  std::string joined;
  std::size_t num_groups = 0;
  for (std::string_view rest = digits; !rest.empty(); ++num_groups) {
    const std::string_view group = rest.substr(0, rest.find(separator));
    const bool fits = num_groups == 0 ? group.size() <= 3 : group.size() == 3;
    if (!is_digits(group) || !fits) return std::nullopt;
    joined += group;
    rest.remove_prefix(std::min(group.size() + 1, rest.size()));
  }
  if (digits.ends_with(separator) || joined.starts_with('0')) return std::nullopt;
  const bool may_be_two = separator == ',' || separator == ' ';
  if (may_be_two && num_groups == 2 && !only_integers) return std::nullopt;
  return joined;
}

/// Zeros in front of a number say nothing, but for the octal digits of a file's mode, 0644.
std::string_view without_leading_zeros(std::string_view digits) {
  static constexpr std::size_t kModeDigits = 4;
  std::size_t begin = std::min(digits.find_first_not_of('0'), digits.size() - 1);
  if (begin > 0 && digits[begin] == '.') --begin;
  const std::string_view rest = digits.substr(begin);
  const bool may_be_mode =
      digits.size() == kModeDigits && digits.find_first_not_of("01234567") == std::string_view::npos;
  const bool is_number = !rest.empty() && is_digits(rest.substr(0, 1));
  return may_be_mode || !is_number ? digits : rest;
}

std::optional<std::string> number_of(std::string_view text, bool only_integers) {
  std::string sign;
  if (text.starts_with('+') || text.starts_with('-')) {
    if (text.front() == '-') sign = "-";
    text.remove_prefix(1);
  }
  const auto as_number = [&](const std::string& digits) -> std::optional<std::string> {
    const std::optional<PythonJson> value = read_strict_json(sign + digits);
    if (!value || value->as_number() == nullptr) return std::nullopt;
    return sign + digits;
  };
  if (text.starts_with('.') && is_digits(text.substr(1))) return as_number("0" + std::string(text));
  if (text.ends_with('.') && is_digits(text.substr(0, text.size() - 1)))
    return as_number(only_integers ? std::string(text.substr(0, text.size() - 1)) : std::string(text) + "0");
  for (const char separator : {',', '_', ' ', '\''}) {
    if (text.find(separator) == std::string_view::npos) continue;
    const std::optional<std::string> joined = without_separators(text, separator, only_integers);
    return joined ? as_number(*joined) : std::nullopt;
  }
  const bool is_signed_twice = text.starts_with('+') || text.starts_with('-');
  return text.empty() || is_signed_twice ? std::nullopt : as_number(std::string(without_leading_zeros(text)));
}

std::optional<std::string> word_of_type(std::string_view text, const Types& types) {
  static constexpr std::string_view kTrue[] = {"true", "yes", "on", "y", "t", "enabled"},
                                    kFalse[] = {"false", "no", "off", "n", "f", "disabled"},
                                    kNull[] = {"null", "none", "nil"};
  const std::string word = lower_case(text);
  if (types.allow(Types::kBoolean)) {
    if (is_one_of(word, kTrue)) return "true";
    if (is_one_of(word, kFalse)) return "false";
    if (!types.allow(Types::kNumber) && word == "1") return "true";
    if (!types.allow(Types::kNumber) && word == "0") return "false";
  }
  if (types.allow(Types::kNull) && is_one_of(word, kNull)) return "null";
  return std::nullopt;
}

}  // namespace

std::optional<std::string> json_of_type(std::string_view text, const PythonJson& schema) {
  const Types types = types_of_schema(schema);
  const std::string_view bare = without_code_fence(without_look_alike_closers(text, ""));
  if (const std::optional<PythonJson> value = read_strict_json(bare)) {
    if (types.allow(*value) && value->as_string() == nullptr) return std::string(trimmed(bare));
    if (const std::string* inner = value->as_string()) return json_of_type(*inner, schema);
  }
  const std::string plain = in_plain_spelling(bare).text;
  std::string_view word_or_number = trimmed(plain);
  if (word_or_number.size() > 2 && word_or_number.starts_with('\'') && word_or_number.ends_with('\''))
    word_or_number = word_or_number.substr(1, word_or_number.size() - 2);
  if (std::optional<std::string> word = word_of_type(word_or_number, types)) return word;
  if (types.allow(Types::kNumber)) {
    if (std::optional<std::string> number = number_of(word_or_number, types.only_integers)) return number;
  }
  std::vector<PythonJson> readings = json_readings(bare);
  std::erase_if(readings, [&](const PythonJson& value) {
    return value.as_string() != nullptr || !fits_schema(value, schema);
  });
  return readings.size() == 1 ? std::optional(dump_python_json(readings.front())) : std::nullopt;
}

}  // namespace baleen
