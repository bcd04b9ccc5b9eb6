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

std::uint8_t types_of_schema(const PythonJson& schema) {
  std::uint8_t types = 0;
  if (const PythonJson* type = schema.find("type")) {
    if (type->as_array() == nullptr) return type_named(*type);
    for (const PythonJson& one : *type->as_array()) types |= type_named(one);
  } else if (const PythonJson* constant = schema.find("const")) {
    types = type_of(*constant);
  } else if (const PythonJson* values = schema.find("enum");
             values != nullptr && values->as_array() != nullptr) {
    for (const PythonJson& value : *values->as_array()) types |= type_of(value);
  } else {
    for (const char* choice : {"anyOf", "oneOf"}) {
      const PythonJson* schemas = schema.find(choice);
      if (schemas == nullptr || schemas->as_array() == nullptr) continue;
      for (const PythonJson& one : *schemas->as_array()) types |= types_of_schema(one);
      break;
    }
  }
  return types == 0 ? ArgumentTypes::kAny : types;
}

}  // namespace

bool ArgumentTypes::allow(const PythonJson& value) const { return allow(type_of(value)); }

ArgumentTypes argument_types(const PythonJson& parameters, std::string_view key) {
  const PythonJson* properties = parameters.find("properties");
  const PythonJson* schema = properties == nullptr ? nullptr : properties->find(key);
  if (schema == nullptr) return {};
  const PythonJson* type = schema->find("type");
  const bool only_integers =
      type != nullptr && type->as_string() != nullptr && *type->as_string() == "integer";
  return {types_of_schema(*schema), only_integers};
}

const PythonJson::Object* declared_properties(const PythonJson& parameters) {
  const PythonJson* properties = parameters.find("properties");
  return properties == nullptr ? nullptr : properties->as_object();
}

}  // namespace baleen
