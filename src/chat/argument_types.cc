#include "chat/argument_types.h"

namespace baleen {
namespace {

std::uint8_t type_of(const PythonJson& value) {
  if (value.is_null()) return ArgumentTypes::kNull;
  if (value.as_bool() != nullptr) return ArgumentTypes::kBoolean;
  if (value.as_number() != nullptr) return ArgumentTypes::kNumber;
  if (value.as_string() != nullptr) return ArgumentTypes::kString;
  return value.as_array() != nullptr ? ArgumentTypes::kArray : ArgumentTypes::kObject;
}

std::uint8_t type_named(const PythonJson& name) {
  struct Named {
    std::string_view name;
    std::uint8_t type;
  };
  static constexpr Named kNames[] = {
      {"null", ArgumentTypes::kNull},     {"boolean", ArgumentTypes::kBoolean},
      {"number", ArgumentTypes::kNumber}, {"integer", ArgumentTypes::kNumber},
      {"string", ArgumentTypes::kString}, {"array", ArgumentTypes::kArray},
      {"object", ArgumentTypes::kObject},
  };
  for (const Named& named : kNames) {
    if (name.as_string() != nullptr && *name.as_string() == named.name) return named.type;
  }
  return ArgumentTypes::kAny;
}

bool is_whole(const PythonJson::Number& number) {
  // As Python prints it: with an exponent only from 1e16 on, where all are whole, and below 1e-4.
  if (number.text.find('e') != std::string::npos) return number.text.find("e-") == std::string::npos;
  const std::size_t point = number.text.find('.');
  return point == std::string::npos || number.text.find_first_not_of('0', point + 1) == std::string::npos;
}

/// The types of a choice: all of its alternatives'.
void add(ArgumentTypes& all, const ArgumentTypes& one) {
  const bool had_numbers = all.allow(ArgumentTypes::kNumber), has_numbers = one.allow(ArgumentTypes::kNumber);
  all.only_integers = (!had_numbers || all.only_integers) && (!has_numbers || one.only_integers) &&
                      (had_numbers || has_numbers);
  all.bits |= one.bits;
}

}  // namespace

ArgumentTypes types_of_schema(const PythonJson& schema) {
  ArgumentTypes types{.bits = 0};
  if (const PythonJson* type = schema.find("type")) {
    const PythonJson::Array one{*type};
    for (const PythonJson& name : type->as_array() != nullptr ? *type->as_array() : one) {
      const bool is_integer = name.as_string() != nullptr && *name.as_string() == "integer";
      add(types, {.bits = type_named(name), .only_integers = is_integer});
    }
  } else if (const PythonJson* constant = schema.find("const")) {
    types.bits = type_of(*constant);
  } else if (const PythonJson* values = schema.find("enum");
             values != nullptr && values->as_array() != nullptr) {
    for (const PythonJson& value : *values->as_array()) types.bits |= type_of(value);
  } else {
    for (const char* choice : {"anyOf", "oneOf"}) {
      const PythonJson* schemas = schema.find(choice);
      if (schemas == nullptr || schemas->as_array() == nullptr) continue;
      for (const PythonJson& one : *schemas->as_array()) add(types, types_of_schema(one));
      break;
    }
  }
  return types.bits == 0 ? ArgumentTypes() : types;
}

bool ArgumentTypes::allow(const PythonJson& value) const {
  const PythonJson::Number* number = value.as_number();
  return allow(type_of(value)) && (number == nullptr || !only_integers || is_whole(*number));
}

ArgumentTypes argument_types(const PythonJson& parameters, std::string_view key) {
  const PythonJson* properties = parameters.find("properties");
  const PythonJson* schema = properties == nullptr ? nullptr : properties->find(key);
  return schema == nullptr ? ArgumentTypes() : types_of_schema(*schema);
}

const PythonJson::Object* declared_properties(const PythonJson& parameters) {
  const PythonJson* properties = parameters.find("properties");
  return properties == nullptr ? nullptr : properties->as_object();
}

}  // namespace baleen
