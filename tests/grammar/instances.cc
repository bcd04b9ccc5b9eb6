#include "tests/grammar/instances.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>

#include "grammar/char_automaton.h"
#include "tests/grammar/pattern_matcher.h"

namespace baleen {
namespace {

const PythonJson& target_of(const PythonJson& schema, const PythonJson& root) {
  std::string_view rest = std::string_view(*schema.find("$ref")->as_string()).substr(1);
  const PythonJson* at = &root;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('/', 1), rest.size());
    at = at->find(rest.substr(1, end - 1));
    rest.remove_prefix(end);
  }
  return *at;
}

double as_double(const PythonJson& number) { return std::strtod(number.as_number()->text.c_str(), nullptr); }

bool has_type(const PythonJson& value, const std::string& type) {
  if (type == "null") return value.is_null();
  if (type == "boolean") return value.as_bool() != nullptr;
  if (type == "string") return value.as_string() != nullptr;
  if (type == "array") return value.as_array() != nullptr;
  if (type == "object") return value.as_object() != nullptr;
  return value.as_number() != nullptr &&
         (type == "number" || std::floor(as_double(value)) == as_double(value));
}

bool equal(const PythonJson& a, const PythonJson& b) { return dump_python_json(a) == dump_python_json(b); }

bool valid_string(const std::string& text, const PythonJson& schema) {
  const auto size = static_cast<double>(to_characters(text).size());
  if (const PythonJson* least = schema.find("minLength"); least != nullptr && size < as_double(*least))
    return false;
  if (const PythonJson* most = schema.find("maxLength"); most != nullptr && size > as_double(*most))
    return false;
  const PythonJson* pattern = schema.find("pattern");
  return pattern == nullptr || PatternMatcher(*pattern->as_string()).finds(text).value_or(true);
}

bool valid_number(double number, const PythonJson& schema) {
  const auto bound = [&](const char* name) { return schema.find(name); };
  if (bound("minimum") != nullptr && number < as_double(*bound("minimum"))) return false;
  if (bound("maximum") != nullptr && number > as_double(*bound("maximum"))) return false;
  if (bound("exclusiveMinimum") != nullptr && number <= as_double(*bound("exclusiveMinimum"))) return false;
  return bound("exclusiveMaximum") == nullptr || number < as_double(*bound("exclusiveMaximum"));
}

bool valid_array(const PythonJson::Array& array, const PythonJson& schema, const PythonJson& root) {
  const auto size = static_cast<double>(array.size());
  if (const PythonJson* least = schema.find("minItems"); least != nullptr && size < as_double(*least))
    return false;
  if (const PythonJson* most = schema.find("maxItems"); most != nullptr && size > as_double(*most))
    return false;
  const PythonJson* prefix = schema.find("prefixItems");
  const std::size_t num_first = prefix == nullptr ? 0 : prefix->as_array()->size();
  for (std::size_t i = 0; i < array.size(); ++i) {
    const PythonJson* item = i < num_first ? &(*prefix->as_array())[i] : schema.find("items");
    if (item != nullptr && !is_valid(array[i], *item, root)) return false;
  }
  return true;
}

bool valid_object(const PythonJson& object, const PythonJson& schema, const PythonJson& root) {
  if (const PythonJson* required = schema.find("required")) {
    for (const PythonJson& name : *required->as_array()) {
      if (object.find(*name.as_string()) == nullptr) return false;
    }
  }
  const auto size = static_cast<double>(object.as_object()->size());
  if (const PythonJson* least = schema.find("minProperties"); least != nullptr && size < as_double(*least))
    return false;
  if (const PythonJson* most = schema.find("maxProperties"); most != nullptr && size > as_double(*most))
    return false;
  const PythonJson* properties = schema.find("properties");
  for (const auto& [name, value] : *object.as_object()) {
    const PythonJson* property = properties == nullptr ? nullptr : properties->find(name);
    bool has_pattern = false;
    if (const PythonJson* patterns = schema.find("patternProperties")) {
      for (const auto& [pattern, other] : *patterns->as_object()) {
        if (!PatternMatcher(pattern).finds(name).value_or(false)) continue;
        if (!is_valid(value, other, root)) return false;
        has_pattern = true;
      }
    }
    if (property == nullptr && !has_pattern) property = schema.find("additionalProperties");
    if (property != nullptr && !is_valid(value, *property, root)) return false;
    if (const PythonJson* names = schema.find("propertyNames");
        names != nullptr && !is_valid(name, *names, root))
      return false;
  }
  return true;
}

}  // namespace

bool is_valid(const PythonJson& value, const PythonJson& schema, const PythonJson& root) {
  if (const bool* flag = schema.as_bool()) return *flag;
  if (schema.find("$ref") != nullptr && !is_valid(value, target_of(schema, root), root)) return false;
  const auto fits = [&](const PythonJson& other) { return is_valid(value, other, root); };
  if (const PythonJson* all = schema.find("allOf");
      all != nullptr && !std::ranges::all_of(*all->as_array(), fits))
    return false;
  for (const char* name : {"anyOf", "oneOf"}) {
    if (const PythonJson* any = schema.find(name);
        any != nullptr && !std::ranges::any_of(*any->as_array(), fits))
      return false;
  }
  if (const PythonJson* other = schema.find("not"); other != nullptr && fits(*other)) return false;
  if (const PythonJson* step = schema.find("multipleOf"); step != nullptr && value.as_number() != nullptr) {
    if (std::fmod(as_double(value), as_double(*step)) != 0) return false;
  }
  if (const PythonJson* list = schema.find("enum")) {
    if (std::ranges::none_of(*list->as_array(), [&](const PythonJson& other) { return equal(value, other); }))
      return false;
  }
  if (const PythonJson* only = schema.find("const"); only != nullptr && !equal(value, *only)) return false;
  if (const PythonJson* type = schema.find("type")) {
    const PythonJson::Array types =
        type->as_array() != nullptr ? *type->as_array() : PythonJson::Array{*type};
    if (std::ranges::none_of(types,
                             [&](const PythonJson& name) { return has_type(value, *name.as_string()); }))
      return false;
  }
  if (value.as_string() != nullptr) return valid_string(*value.as_string(), schema);
  if (value.as_number() != nullptr) return valid_number(as_double(value), schema);
  if (value.as_array() != nullptr) return valid_array(*value.as_array(), schema, root);
  return value.as_object() == nullptr || valid_object(value, schema, root);
}

namespace {

PythonJson random_string(const PythonJson& schema, std::mt19937& random) {
  const PythonJson *least = schema.find("minLength"), *most = schema.find("maxLength");
  const auto first = static_cast<std::size_t>(least == nullptr ? 0 : as_double(*least));
  const std::size_t last = most == nullptr ? first + 6 : static_cast<std::size_t>(as_double(*most));
  std::string text;
  static const std::string kCharacters[] = {"a",  "\"", "\\", "\n", "\x01", "é",
                                            "日", "😀",  "/",  " ",  "｜",   "D"};
  for (std::size_t size = first + random() % (last - first + 1); size > 0; --size)
    text += kCharacters[random() % std::size(kCharacters)];
  return text;
}

PythonJson random_number(const PythonJson& schema, std::mt19937& random, bool integer) {
  const PythonJson *least = schema.find("minimum"), *most = schema.find("maximum");
  const auto first = static_cast<long>(least == nullptr ? -5'000 : std::ceil(as_double(*least)));
  const auto last =
      static_cast<long>(most == nullptr ? static_cast<double>(first) + 10'000 : std::floor(as_double(*most)));
  const long whole = first + static_cast<long>(random() % static_cast<unsigned long>(last - first + 1));
  if (integer || least != nullptr || most != nullptr)
    return PythonJson(PythonJson::Number{std::to_string(whole)});
  return PythonJson(
      PythonJson::Number{python_float_text(static_cast<double>(whole) * std::pow(10.0, random() % 40))});
}

}  // namespace

PythonJson random_instance(const PythonJson& schema, const PythonJson& root, std::mt19937& random,
                           int depth) {
  static constexpr int kDeep = 6;
  const auto inner = [&](const PythonJson& other) { return random_instance(other, root, random, depth + 1); };
  if (schema.find("$ref") != nullptr) return inner(target_of(schema, root));
  for (const char* name : {"anyOf", "oneOf", "enum"}) {
    const PythonJson* list = schema.find(name);
    if (list == nullptr) continue;
    const std::size_t size = list->as_array()->size();
    const PythonJson& chosen = (*list->as_array())[depth > kDeep ? size - 1 : random() % size];
    return name == std::string_view("enum") ? chosen : inner(chosen);
  }
  if (schema.find("const") != nullptr) return *schema.find("const");
  static const std::string kTypes[] = {"null", "boolean", "integer", "number", "string"};
  std::string type = kTypes[random() % std::size(kTypes)];
  if (const PythonJson* given = schema.find("type")) {
    const PythonJson* chosen = given;
    if (given->as_array() != nullptr) chosen = &(*given->as_array())[random() % given->as_array()->size()];
    type = *chosen->as_string();
  }
  if (type == "null") return {};
  if (type == "boolean") return PythonJson(random() % 2 == 0);
  if (type == "string") return random_string(schema, random);
  if (type == "integer" || type == "number") return random_number(schema, random, type == "integer");
  if (type == "array") {
    const PythonJson *least = schema.find("minItems"), *most = schema.find("maxItems");
    const PythonJson *prefix = schema.find("prefixItems"), *items = schema.find("items");
    const std::size_t num_first = prefix == nullptr ? 0 : prefix->as_array()->size();
    const auto first = static_cast<std::size_t>(least == nullptr ? 0 : as_double(*least));
    std::size_t last =
        most == nullptr ? std::max(first, num_first) + 3 : static_cast<std::size_t>(as_double(*most));
    if (num_first > 0 && items == nullptr) last = std::min(last, num_first);
    PythonJson::Array array;
    static const PythonJson kAny{PythonJson::Object{}};
    const std::size_t size = depth > kDeep ? first : first + random() % (last - first + 1);
    while (array.size() < size) {
      const bool is_first = array.size() < num_first;
      array.push_back(inner(is_first           ? (*prefix->as_array())[array.size()]
                            : items != nullptr ? *items
                                               : kAny));
    }
    return array;
  }
  PythonJson::Object object;
  if (const PythonJson* properties = schema.find("properties")) {
    for (const auto& [name, property] : *properties->as_object()) {
      const PythonJson* required = schema.find("required");
      const bool is_needed = required != nullptr &&
                             std::ranges::any_of(*required->as_array(),
                                                 [&](const PythonJson& n) { return *n.as_string() == name; });
      if (is_needed || (depth <= kDeep && random() % 2 == 0)) object.push_back({name, inner(property)});
    }
  }
  const PythonJson* additional = schema.find("additionalProperties");
  if (additional != nullptr && (additional->as_bool() == nullptr || *additional->as_bool()) &&
      depth <= kDeep) {
    for (std::size_t i = 0; i < random() % 3; ++i)
      object.push_back({"extra " + std::to_string(i),
                        additional->as_bool() != nullptr ? PythonJson("x") : inner(*additional)});
  }
  return object;
}

}  // namespace baleen
