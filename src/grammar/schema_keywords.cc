#include "grammar/schema_keywords.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "grammar/number_range.h"

namespace baleen {
namespace {

using Name = std::string_view;

constexpr std::pair<Name, Name> kTypeOfKeyword[] = {
    {"properties", "object"},
    {"required", "object"},
    {"additionalProperties", "object"},
    {"propertyNames", "object"},
    {"minProperties", "object"},
    {"maxProperties", "object"},
    {"items", "array"},
    {"prefixItems", "array"},
    {"additionalItems", "array"},
    {"minItems", "array"},
    {"maxItems", "array"},
    {"minLength", "string"},
    {"maxLength", "string"},
    {"pattern", "string"},
    {"format", "string"},
    {"minimum", "number"},
    {"maximum", "number"},
    {"exclusiveMinimum", "number"},
    {"exclusiveMaximum", "number"},
    {"uniqueItems", "array"},
    {"multipleOf", "number"},
};
constexpr Name kOtherConstraints[] = {"type", "enum", "const", "anyOf", "oneOf", "allOf", "$ref"};
constexpr Name kUnsupported[] = {"not",          "if",
                                 "then",         "else",
                                 "contains",     "dependentRequired",
                                 "dependencies", "dependentSchemas",
                                 "$dynamicRef",  "patternProperties",
                                 "$recursiveRef"};
constexpr Name kTypes[] = {"null", "boolean", "integer", "number", "string", "array", "object"};

bool is_whole(const PythonJson::Number& number) {
  const std::optional<Decimal> decimal = parse_decimal(number.text);
  return decimal && decimal->fraction.empty();
}

}  // namespace

bool is_constraint(std::string_view keyword) {
  return !type_of_keyword(keyword).empty() ||
         std::ranges::find(kOtherConstraints, keyword) != std::end(kOtherConstraints);
}

std::string_view unsupported_keyword(const PythonJson& schema) {
  for (const auto& [name, value] : *schema.as_object()) {
    if (std::ranges::find(kUnsupported, name) != std::end(kUnsupported)) return name;
    const bool* flag = value.as_bool();
    const PythonJson::Number* number = value.as_number();
    if (name == "uniqueItems" && (flag == nullptr || *flag)) return name;
    if (name == "multipleOf" && (number == nullptr || number->text != "1")) return name;
    if ((name == "unevaluatedProperties" || name == "unevaluatedItems") && flag == nullptr) return name;
  }
  return {};
}

bool is_type_name(std::string_view name) { return std::ranges::find(kTypes, name) != std::end(kTypes); }

std::string_view type_of_keyword(std::string_view keyword) {
  const auto* found =
      std::ranges::find(kTypeOfKeyword, keyword, [](const auto& entry) { return entry.first; });
  return found == std::end(kTypeOfKeyword) ? Name() : found->second;
}

bool has_type(const PythonJson& value, std::string_view type) {
  if (type == "null") return value.is_null();
  if (type == "boolean") return value.as_bool() != nullptr;
  if (type == "integer") return value.as_number() != nullptr && is_whole(*value.as_number());
  if (type == "number") return value.as_number() != nullptr;
  if (type == "string") return value.as_string() != nullptr;
  if (type == "array") return value.as_array() != nullptr;
  return value.as_object() != nullptr;
}

std::string_view format_pattern(std::string_view format) {
  // Dates know the months' lengths and leap years; times and offsets are RFC 3339's, without leap seconds.
#define BALEEN_DATE                                                                                          \
  R"((\d{4}-((0[13578]|1[02])-(0[1-9]|[12]\d|3[01])|(0[469]|11)-(0[1-9]|[12]\d|30)|02-(0[1-9]|1\d|2[0-8])))" \
  R"(|(\d\d(0[48]|[2468][048]|[13579][26])|([02468][048]|[13579][26])00)-02-29))"
#define BALEEN_TIME R"(([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,9})?(Z|[+-]([01]\d|2[0-3]):[0-5]\d))"
  static constexpr std::pair<Name, Name> kFormats[] = {
      {"date", "^" BALEEN_DATE "$"},
      {"time", "^" BALEEN_TIME "$"},
      {"date-time", "^" BALEEN_DATE "T" BALEEN_TIME "$"},
      {"uuid", "^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"},
  };
#undef BALEEN_DATE
#undef BALEEN_TIME
  const auto* found = std::ranges::find(kFormats, format, [](const auto& entry) { return entry.first; });
  return found == std::end(kFormats) ? Name() : found->second;
}

}  // namespace baleen
