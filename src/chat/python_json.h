/// JSON as Python keeps and writes it. The chat format is defined by a Python program, so every schema and
/// argument in a prompt must come out as its `json.dumps(value, ensure_ascii=False)` writes it: separators ",
/// " and ": ", keys in order of first appearance, integers of any length with all their digits, floats as
/// `repr` prints them. General JSON libraries lose long integers, duplicate-key rules or NaN; hence a value
/// type of our own.
#pragma once

#include <concepts>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/error.h"

namespace baleen {

/// A name and its value. A template only so that it can be used before `PythonJson` is complete.
template <class Value>
struct NamedValue {
  std::string name;
  Value value;
};

class PythonJson {
 public:
  using Member = NamedValue<PythonJson>;
  using Array = std::vector<PythonJson>;
  using Object = std::vector<Member>;
  /// A number as Python prints it: "7", "1.0", "1e+16", "-0.0", "NaN", "-Infinity".
  struct Number {
    std::string text;
  };

  PythonJson() = default;  ///< null
  explicit PythonJson(std::same_as<bool> auto value) : value_(value) {}
  explicit PythonJson(Number value) : value_(std::move(value)) {}
  PythonJson(std::string value) : value_(std::move(value)) {}
  PythonJson(const char* value) : value_(std::string(value)) {}
  PythonJson(Array value) : value_(std::move(value)) {}
  PythonJson(Object value) : value_(std::move(value)) {}

  [[nodiscard]] bool is_null() const { return std::holds_alternative<std::nullptr_t>(value_); }
  /// The value of that kind; nullptr when this is of another kind.
  [[nodiscard]] const bool* as_bool() const { return std::get_if<bool>(&value_); }
  [[nodiscard]] const Number* as_number() const { return std::get_if<Number>(&value_); }
  [[nodiscard]] const std::string* as_string() const { return std::get_if<std::string>(&value_); }
  [[nodiscard]] const Array* as_array() const { return std::get_if<Array>(&value_); }
  [[nodiscard]] const Object* as_object() const { return std::get_if<Object>(&value_); }

  /// The member of that name; nullptr when there is none or this is not an object. Linear in the members.
  [[nodiscard]] const PythonJson* find(std::string_view name) const;

  /// "null", "a string", "an object", ...: for error sentences.
  [[nodiscard]] std::string_view kind() const;

 private:
  std::variant<std::nullptr_t, bool, Number, std::string, Array, Object> value_;
};

/// Arrays and objects may nest this deep; Python's own limit lies just below it.
inline constexpr int kMaxJsonDepth = 1000;

/// Reads what Python's `json.loads` reads: RFC 8259 plus NaN, Infinity and -Infinity; of duplicate keys the
/// last value stays at the first place. Refuses in addition what has no UTF-8 form (invalid bytes, lone
/// surrogate escapes) and nesting beyond `kMaxJsonDepth`. The error names the byte offset. Linear in the
/// text.
Result<PythonJson> parse_python_json(std::string_view text);

/// One line of JSON; non-ASCII characters stay as they are. Reads back to the same value.
[[nodiscard]] std::string dump_python_json(const PythonJson& value);

/// `text` as a JSON string, quotes included.
[[nodiscard]] std::string quote_python_json(std::string_view text);

/// `repr` of a Python float: shortest digits that read back, an exponent below 1e-4 and from 1e16 on; JSON's
/// names for the non-finite values.
[[nodiscard]] std::string python_float_text(double value);

}  // namespace baleen
