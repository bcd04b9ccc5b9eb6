#include "chat/call_check.h"

#include <algorithm>

#include "chat/argument_types.h"

namespace baleen {
namespace {

bool has_required(const PythonJson::Object& object, const PythonJson& schema) {
  return std::ranges::all_of(required_parameters(schema), [&object](const std::string& name) {
    return std::ranges::find(object, name, &PythonJson::Member::name) != object.end();
  });
}

/// null for an argument that may be left out says that it is.
bool is_left_out(const PythonJson& parameters, const PythonJson::Member& argument) {
  return argument.value.is_null() && !required_parameters(parameters).contains(argument.name);
}

bool is_equal(const PythonJson& a, const PythonJson& b) { return dump_python_json(a) == dump_python_json(b); }

bool is_among(const PythonJson& value, const PythonJson& list) {
  return list.as_array() == nullptr || std::ranges::any_of(*list.as_array(), [&value](const PythonJson& one) {
           return is_equal(value, one);
         });
}

bool fits_members(const PythonJson::Object& object, const PythonJson& schema) {
  const PythonJson* properties = schema.find("properties");
  const PythonJson* others = schema.find("additionalProperties");
  const auto fits = [&](const PythonJson::Member& member) {
    const PythonJson* property = properties == nullptr ? nullptr : properties->find(member.name);
    if (property != nullptr) return fits_schema(member.value, *property);
    return others == nullptr || fits_schema(member.value, *others);
  };
  return has_required(object, schema) && std::ranges::all_of(object, fits);
}

bool fits_combination(const PythonJson& value, const PythonJson& schema) {
  const auto fits = [&value](const PythonJson& one) { return fits_schema(value, one); };
  for (const char* choice : {"anyOf", "oneOf"}) {
    const PythonJson* schemas = schema.find(choice);
    if (schemas == nullptr || schemas->as_array() == nullptr) continue;
    if (!std::ranges::any_of(*schemas->as_array(), fits)) return false;
  }
  const PythonJson* all = schema.find("allOf");
  return all == nullptr || all->as_array() == nullptr || std::ranges::all_of(*all->as_array(), fits);
}

/// Of a call as the model wrote it.
bool may_stand(const PythonJson& parameters, const PythonJson::Member& argument) {
  return is_left_out(parameters, argument) || argument_types(parameters, argument.name).allow(argument.value);
}

/// Of a repaired call.
bool fits_well(const PythonJson& parameters, const PythonJson::Member& argument) {
  const PythonJson* properties = parameters.find("properties");
  const PythonJson* others = parameters.find("additionalProperties");
  const PythonJson* property = properties == nullptr ? nullptr : properties->find(argument.name);
  if (property != nullptr) return is_left_out(parameters, argument) || fits_schema(argument.value, *property);
  return others == nullptr ? properties == nullptr : fits_schema(argument.value, *others);
}

}  // namespace

bool may_be_called(const PythonJson& parameters, const PythonJson::Object& arguments, bool is_repaired) {
  const auto fits = [&](const PythonJson::Member& argument) {
    return may_stand(parameters, argument) && (!is_repaired || fits_well(parameters, argument));
  };
  return has_required(arguments, parameters) && std::ranges::all_of(arguments, fits);
}

std::unordered_set<std::string> required_parameters(const PythonJson& parameters) {
  std::unordered_set<std::string> names;
  const PythonJson* required = parameters.find("required");
  if (required == nullptr || required->as_array() == nullptr) return names;
  for (const PythonJson& name : *required->as_array()) {
    if (name.as_string() != nullptr) names.insert(*name.as_string());
  }
  return names;
}

bool fits_schema(const PythonJson& value, const PythonJson& schema) {
  if (schema.as_object() == nullptr) return schema.as_bool() == nullptr || *schema.as_bool();
  const PythonJson* nullable = schema.find("nullable");
  if (value.is_null() && nullable != nullptr && nullable->as_bool() != nullptr && *nullable->as_bool())
    return true;
  if (!types_of_schema(schema).allow(value)) return false;
  const PythonJson* values = schema.find("enum");
  if (values != nullptr && !is_among(value, *values)) return false;
  const PythonJson* constant = schema.find("const");
  if (constant != nullptr && !is_equal(value, *constant)) return false;
  if (!fits_combination(value, schema)) return false;
  if (const PythonJson::Object* object = value.as_object()) return fits_members(*object, schema);
  const PythonJson* items = schema.find("items");
  if (value.as_array() == nullptr || items == nullptr) return true;
  return std::ranges::all_of(*value.as_array(),
                             [items](const PythonJson& item) { return fits_schema(item, *items); });
}

}  // namespace baleen
