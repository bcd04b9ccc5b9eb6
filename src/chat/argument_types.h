/// Which JSON types a tool's schema allows for an argument.
#pragma once

#include <cstdint>
#include <string_view>

#include "chat/python_json.h"

namespace baleen {

/// A set of JSON types; everything where the schema does not say.
struct ArgumentTypes {
  static constexpr std::uint8_t kNull = 1, kBoolean = 2, kNumber = 4, kString = 8, kArray = 16, kObject = 32,
                                kAny = 63;
  std::uint8_t bits = kAny;
  bool only_integers = false;  ///< numbers are whole: 3, 3.0

  [[nodiscard]] bool allow(std::uint8_t type) const { return (bits & type) != 0; }
  [[nodiscard]] bool allow(const PythonJson& value) const;
  /// A string or perhaps null, nothing else.
  [[nodiscard]] bool only_string() const { return (bits & ~kNull) == kString; }
  bool operator==(const ArgumentTypes&) const = default;
};

/// Of a schema. Looks at `type`, `enum`, `const`, `anyOf` and `oneOf`; references and other combinations
/// allow everything.
[[nodiscard]] ArgumentTypes types_of_schema(const PythonJson& schema);

/// Of the property `key` in the schema of a tool's parameters. Integers count as numbers.
[[nodiscard]] ArgumentTypes argument_types(const PythonJson& parameters, std::string_view key);

/// The declared properties; nullptr when the schema lists none.
[[nodiscard]] const PythonJson::Object* declared_properties(const PythonJson& parameters);

}  // namespace baleen
