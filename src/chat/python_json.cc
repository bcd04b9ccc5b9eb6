#include "chat/python_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <iterator>

namespace baleen {
namespace {

void append_quoted(std::string& out, std::string_view text) {
  out += '"';
  for (const char c : text) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      case '\b':
        out += "\\b";
        break;
      case '\f':
        out += "\\f";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          fmt::format_to(std::back_inserter(out), "\\u{:04x}", static_cast<unsigned char>(c));
        } else {
          out += c;
        }
    }
  }
  out += '"';
}

void append_value(std::string& out, const PythonJson& value) {
  if (value.is_null()) {
    out += "null";
  } else if (const bool* flag = value.as_bool()) {
    out += *flag ? "true" : "false";
  } else if (const PythonJson::Number* number = value.as_number()) {
    out += number->text;
  } else if (const std::string* text = value.as_string()) {
    append_quoted(out, *text);
  } else if (const PythonJson::Array* array = value.as_array()) {
    std::string_view separator = "[";
    for (const PythonJson& element : *array) {
      out += separator;
      append_value(out, element);
      separator = ", ";
    }
    out += array->empty() ? "[]" : "]";
  } else if (const PythonJson::Object* object = value.as_object()) {
    std::string_view separator = "{";
    for (const PythonJson::Member& member : *object) {
      out += separator;
      append_quoted(out, member.name);
      out += ": ";
      append_value(out, member.value);
      separator = ", ";
    }
    out += object->empty() ? "{}" : "}";
  }
}

}  // namespace

const PythonJson* PythonJson::find(std::string_view name) const {
  if (const Object* object = as_object()) {
    for (const Member& member : *object) {
      if (member.name == name) return &member.value;
    }
  }
  return nullptr;
}

std::string_view PythonJson::kind() const {
  static constexpr std::string_view kKinds[] = {"null",     "a boolean", "a number",
                                                "a string", "an array",  "an object"};
  return kKinds[value_.index()];
}

std::string dump_python_json(const PythonJson& value) {
  std::string out;
  append_value(out, value);
  return out;
}

std::string quote_python_json(std::string_view text) {
  std::string out;
  append_quoted(out, text);
  return out;
}

std::string python_float_text(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value < 0 ? "-Infinity" : "Infinity";
  // Shortest digits as d.ddde±xx, then laid out by Python's rules.
  char buffer[32];
  *std::to_chars(buffer, buffer + sizeof buffer - 1, std::fabs(value), std::chars_format::scientific).ptr =
      '\0';
  const std::string_view scientific = buffer;
  const std::size_t e = scientific.find('e');
  std::string digits(scientific.substr(0, e));
  if (digits.size() > 1) digits.erase(1, 1);
  const int exponent = std::atoi(buffer + e + 1);  // of the first digit
  const std::string_view sign = std::signbit(value) ? "-" : "";
  if (exponent < -4 || exponent >= 16) {
    if (digits.size() > 1) digits.insert(1, 1, '.');
    return fmt::format("{}{}e{:+03}", sign, digits, exponent);
  }
  if (exponent < 0) digits.insert(0, static_cast<std::size_t>(-exponent), '0');
  const auto point = static_cast<std::size_t>(std::max(exponent, 0)) + 1;
  if (digits.size() <= point) digits.resize(point + 1, '0');
  digits.insert(point, 1, '.');
  return fmt::format("{}{}", sign, digits);
}

}  // namespace baleen
