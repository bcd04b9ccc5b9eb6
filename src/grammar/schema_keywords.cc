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
    {"patternProperties", "object"},
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
    {kMorePatterns, "string"},
    {"format", "string"},
    {"minimum", "number"},
    {"maximum", "number"},
    {"exclusiveMinimum", "number"},
    {"exclusiveMaximum", "number"},
    {"uniqueItems", "array"},
    {"multipleOf", "number"},
};
constexpr Name kOtherConstraints[] = {"type", "enum", "const", "anyOf", "oneOf", "allOf", "$ref", "not"};
constexpr Name kUnsupported[] = {"if",
                                 "then",
                                 "else",
                                 "contains",
                                 "dependentRequired",
                                 "dependencies",
                                 "dependentSchemas",
                                 "$dynamicRef",
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

bool is_unsupported(const PythonJson::Member& keyword) {
  const auto& [name, value] = keyword;
  if (std::ranges::find(kUnsupported, name) != std::end(kUnsupported)) return true;
  const bool* flag = value.as_bool();
  if (name == "uniqueItems") return flag == nullptr || *flag;
  return (name == "unevaluatedProperties" || name == "unevaluatedItems") && flag == nullptr;
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
#define BALEEN_BYTE R"((25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d))"
#define BALEEN_IPV4 BALEEN_BYTE R"((\.)" BALEEN_BYTE R"(){3})"
  // Labels of at most 31 characters, eight of them: no name comes near the limits of 63 and 253.
#define BALEEN_HOST \
  R"([A-Za-z0-9]([A-Za-z0-9-]{0,29}[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]{0,29}[A-Za-z0-9])?){0,7})"
#define BALEEN_PCHAR R"(([A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2}))"
  // Hours, minutes and seconds of a duration: a unit is followed by the next smaller one or none.
#define BALEEN_SPAN R"((\d{1,9}H(\d{1,9}M(\d{1,9}S)?)?|\d{1,9}M(\d{1,9}S)?|\d{1,9}S))"
  static constexpr std::pair<Name, Name> kFormats[] = {
      {"date", "^" BALEEN_DATE "$"},
      {"time", "^" BALEEN_TIME "$"},
      {"date-time", "^" BALEEN_DATE "T" BALEEN_TIME "$"},
      {"duration",
       R"(^P(\d{1,9}W|(\d{1,9}Y(\d{1,9}M(\d{1,9}D)?)?|\d{1,9}M(\d{1,9}D)?|\d{1,9}D)(T)" BALEEN_SPAN
       R"()?|T)" BALEEN_SPAN R"()$)"},
      {"email",
       R"(^[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]{1,30}(\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]{1,30})?@)" BALEEN_HOST "$"},
      {"hostname", "^" BALEEN_HOST "$"},
      {"ipv4", "^" BALEEN_IPV4 "$"},
      {"ipv6",
       R"(^(([0-9a-fA-F]{1,4}:){7}[0-9a-fA-F]{1,4}|([0-9a-fA-F]{1,4}:){1,7}:|([0-9a-fA-F]{1,4}:){1,6}:[0-9a-fA-F]{1,4})"
       R"(|([0-9a-fA-F]{1,4}:){1,5}(:[0-9a-fA-F]{1,4}){1,2}|([0-9a-fA-F]{1,4}:){1,4}(:[0-9a-fA-F]{1,4}){1,3})"
       R"(|([0-9a-fA-F]{1,4}:){1,3}(:[0-9a-fA-F]{1,4}){1,4}|([0-9a-fA-F]{1,4}:){1,2}(:[0-9a-fA-F]{1,4}){1,5})"
       R"(|[0-9a-fA-F]{1,4}:(:[0-9a-fA-F]{1,4}){1,6}|:((:[0-9a-fA-F]{1,4}){1,7}|:))$)"},
      {"uri", "^[A-Za-z][A-Za-z0-9+.-]*:(//((" BALEEN_PCHAR "*@)?" BALEEN_HOST
              R"((:\d{1,5})?)?(/)" BALEEN_PCHAR "*)*|/?" BALEEN_PCHAR "+(/" BALEEN_PCHAR
              R"(*)*)(\?()" BALEEN_PCHAR "|[/?])*)?(#(" BALEEN_PCHAR "|[/?])*)?$"},
      {"uuid", "^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"},
  };
#undef BALEEN_DATE
#undef BALEEN_TIME
#undef BALEEN_BYTE
#undef BALEEN_IPV4
#undef BALEEN_HOST
#undef BALEEN_PCHAR
#undef BALEEN_SPAN
  const auto* found = std::ranges::find(kFormats, format, [](const auto& entry) { return entry.first; });
  return found == std::end(kFormats) ? Name() : found->second;
}

}  // namespace baleen
