// References resolved, and allOf made one schema.
#include <algorithm>
#include <charconv>
#include <iterator>
#include <utility>

#include "base/work_budget.h"
#include "grammar/schema_compiler.h"
#include "grammar/schema_keywords.h"

namespace baleen {
namespace {

constexpr int kMaxReferenceChain = 50;

/// Of writing a small value to compare it.
constexpr std::int64_t kWorkPerDump = 20;

/// `~1` and `~0` of a JSON pointer; `%20` and its like of a fragment.
std::string unescape(std::string_view part) {
  std::string name;
  for (std::size_t i = 0; i < part.size(); ++i) {
    unsigned code = 0;
    if (part[i] == '~' && i + 1 < part.size()) {
      name += part[++i] == '1' ? '/' : '~';
    } else if (part[i] == '%' && i + 2 < part.size() &&
               std::from_chars(part.data() + i + 1, part.data() + i + 3, code, 16).ptr ==
                   part.data() + i + 3) {
      name += static_cast<char>(code);
      i += 2;
    } else {
      name += part[i];
    }
  }
  return name;
}

/// The schema of no value.
PythonJson nothing() { return PythonJson::Object{{"enum", PythonJson::Array{}}}; }

/// A second pattern or format that a string must match, beside one of the same name.
void add_pattern(std::string_view name, const PythonJson& value, PythonJson::Array& patterns) {
  if (name == "pattern") return patterns.push_back(value);
  if (value.as_string() == nullptr) return;
  const std::string_view pattern = format_pattern(*value.as_string());
  if (!pattern.empty()) patterns.push_back(std::string(pattern));
}

/// About what a value holds in memory.
std::int64_t bytes_of(const PythonJson& value) {
  std::int64_t bytes = sizeof(PythonJson);
  if (const std::string* text = value.as_string()) bytes += std::ssize(*text);
  if (const PythonJson::Array* array = value.as_array())
    for (const PythonJson& element : *array) bytes += bytes_of(element);
  if (const PythonJson::Object* object = value.as_object()) {
    for (const PythonJson::Member& member : *object)
      bytes +=
          static_cast<std::int64_t>(sizeof(std::string)) + std::ssize(member.name) + bytes_of(member.value);
  }
  return bytes;
}

}  // namespace

// Copies of copies would fill the memory long before the steps run out.
const PythonJson* SchemaCompiler::keep(PythonJson value) {
  spend_work(bytes_of(value));
  return &merged_.emplace_back(std::move(value));
}

PythonJson SchemaCompiler::all_of(const PythonJson& a, const PythonJson& b) {
  if (is_anything(a)) return b;
  if (is_anything(b)) return a;
  return PythonJson::Object{{"allOf", PythonJson::Array{a, b}}};
}

const PythonJson* SchemaCompiler::without(const PythonJson& schema, std::string_view name) {
  PythonJson::Object rest = *schema.as_object();
  std::erase_if(rest, [name](const PythonJson::Member& member) { return member.name == name; });
  return keep(std::move(rest));
}

/// What a reference means. Null: nothing is there.
const PythonJson* SchemaCompiler::resolve(const PythonJson& reference, const std::string& path) {
  const std::string* pointer = reference.find("$ref")->as_string();
  if (pointer == nullptr || !(*pointer == "#" || pointer->starts_with("#/"))) {
    leave_out(path + ".$ref", "$ref", "expected a reference within the schema, such as \"#/$defs/name\"");
    return nullptr;
  }
  const PythonJson* at = &root_;
  std::string_view rest = std::string_view(*pointer).substr(1);
  while (!rest.empty() && at != nullptr) {
    const std::size_t end = std::min(rest.find('/', 1), rest.size());
    const std::string name = unescape(rest.substr(1, end - 1));
    rest.remove_prefix(end);
    if (const PythonJson::Array* array = at->as_array()) {
      std::size_t i = array->size();
      std::from_chars(name.data(), name.data() + name.size(), i);
      at = i < array->size() ? &(*array)[i] : nullptr;
    } else {
      at = at->find(name);
    }
  }
  if (at == nullptr) {
    leave_out(path + ".$ref", "$ref",
              fmt::format("the schema has nothing at {}", quote_python_json(*pointer)));
  }
  return at;
}

const PythonJson* SchemaCompiler::flatten(const PythonJson& schema, const std::string& path, int depth) {
  if (failure_) return nullptr;
  if (++steps_ > kMaxSchemaSteps || depth > kMaxReferenceChain) {
    wrong(path, "its allOf and $ref lead back to themselves, or are too many");
    return nullptr;
  }
  if (const bool* flag = schema.as_bool()) return keep(*flag ? PythonJson(PythonJson::Object{}) : nothing());
  if (schema.as_object() == nullptr) {
    leave_out(path, "schema",
              fmt::format("expected a schema (an object or a boolean), found {}", schema.kind()));
    return failure_ ? nullptr : keep(PythonJson::Object{});
  }
  if (!check_keywords(schema, path)) return nullptr;
  if (schema.find("$ref") != nullptr) {
    const PythonJson* target = resolve(schema, path);
    if (failure_) return nullptr;
    const PythonJson* rest = flatten(*without(schema, "$ref"), path, depth + 1);
    if (target == nullptr) return rest;
    const PythonJson* flat = flatten(*target, path, depth + 1);
    return flat == nullptr || rest == nullptr ? nullptr : merged(*flat, *rest, path);
  }
  if (const PythonJson* parts = schema.find("allOf")) {
    const PythonJson* whole = without(schema, "allOf");
    if (parts->as_array() == nullptr) {
      leave_out(path + ".allOf", "allOf",
                fmt::format("expected an array of schemas, found {}", parts->kind()));
      return failure_ ? nullptr : whole;
    }
    for (std::size_t i = 0; i < parts->as_array()->size() && whole != nullptr; ++i) {
      const std::string part_path = fmt::format("{}.allOf[{}]", path, i);
      const PythonJson* part = flatten((*parts->as_array())[i], part_path, depth + 1);
      whole = part == nullptr ? nullptr : merged(*whole, *part, part_path);
    }
    return whole;
  }
  // A union beside other constraints: they hold in each of its alternatives.
  for (const std::string_view name : {"anyOf", "oneOf"}) {
    const PythonJson* branches = schema.find(name);
    if (branches == nullptr || branches->as_array() == nullptr) continue;
    const PythonJson* base = without(schema, name);
    if (is_anything(*base)) continue;
    PythonJson::Array both;
    for (const PythonJson& branch : *branches->as_array()) both.push_back(all_of(*base, branch));
    return keep(PythonJson::Object{{"anyOf", std::move(both)}});
  }
  return &schema;
}

const PythonJson* SchemaCompiler::merged(const PythonJson& a, const PythonJson& b, const std::string& path) {
  ++steps_;
  if (a.as_object() == nullptr || b.as_object() == nullptr) return flatten(all_of(a, b), path, 0);
  PythonJson::Object result;
  PythonJson::Array more_patterns;
  for (const PythonJson::Member& member : *a.as_object()) {
    const PythonJson* other = b.find(member.name);
    if (member.name == "properties" || !is_constraint(member.name)) continue;
    if (other == nullptr) {
      result.push_back(member);
      continue;
    }
    std::optional<PythonJson> both = merged_keyword(member.name, member.value, *other, path);
    if (!both && (member.name == "type" || member.name == "const")) return keep(nothing());
    if (!both && (member.name == "pattern" || member.name == "format")) {
      add_pattern(member.name, *other, more_patterns);
    } else if (!both) {
      leave_out(path, member.name,
                fmt::format("two values of {} that cannot be merged into one", member.name));
      if (failure_) return nullptr;
    }
    result.push_back({member.name, both ? *std::move(both) : member.value});
  }
  for (const PythonJson::Member& member : *b.as_object()) {
    if (member.name != "properties" && is_constraint(member.name) && a.find(member.name) == nullptr)
      result.push_back(member);
  }
  if (a.find("properties") != nullptr || b.find("properties") != nullptr)
    result.push_back({"properties", merged_properties(a, b)});
  if (!more_patterns.empty()) {
    for (PythonJson::Member& member : result) {
      if (member.name != kMorePatterns || member.value.as_array() == nullptr) continue;
      const PythonJson::Array& known = *member.value.as_array();
      more_patterns.insert(more_patterns.end(), known.begin(), known.end());
    }
    std::erase_if(result, [](const PythonJson::Member& member) { return member.name == kMorePatterns; });
    result.push_back({std::string(kMorePatterns), std::move(more_patterns)});
  }
  return keep(std::move(result));
}

PythonJson SchemaCompiler::merged_properties(const PythonJson& a, const PythonJson& b) {
  static const PythonJson kNone{PythonJson::Object{}};
  const auto properties_of = [](const PythonJson& schema) {
    const PythonJson* properties = schema.find("properties");
    return properties != nullptr && properties->as_object() != nullptr ? properties : &kNone;
  };
  spend_work(std::ssize(*properties_of(a)->as_object()) * std::ssize(*properties_of(b)->as_object()));
  PythonJson::Object result;
  const auto add = [&](const PythonJson& mine, const PythonJson& other, bool shared_too) {
    for (const auto& [name, schema] : *properties_of(mine)->as_object()) {
      const PythonJson* elsewhere = properties_of(other)->find(name);
      if (elsewhere != nullptr && !shared_too) continue;
      if (elsewhere == nullptr) elsewhere = other.find("additionalProperties");
      result.push_back({name, elsewhere != nullptr ? all_of(schema, *elsewhere) : schema});
    }
  };
  add(a, b, true);
  add(b, a, false);
  return result;
}

std::optional<PythonJson> SchemaCompiler::merged_keyword(const std::string& name, const PythonJson& a,
                                                         const PythonJson& b, const std::string& path) {
  if (dump_python_json(a) == dump_python_json(b)) return a;
  if (name == "type") {
    PythonJson::Array types;
    const std::vector<std::string> of_a = types_of(PythonJson::Object{{"type", a}}, path);
    for (const std::string& type : types_of(PythonJson::Object{{"type", b}}, path)) {
      const auto has = [&](std::string_view other) { return std::ranges::find(of_a, other) != of_a.end(); };
      if (has(type) || (type == "integer" && has("number"))) types.emplace_back(type);
      if (type == "number" && has("integer")) types.emplace_back("integer");
    }
    return types.empty() ? std::nullopt : std::optional<PythonJson>(types);
  }
  if (name == "not") return PythonJson::Object{{"anyOf", PythonJson::Array{a, b}}};
  if (name == kMorePatterns && a.as_array() != nullptr && b.as_array() != nullptr) {
    PythonJson::Array both = *a.as_array();
    both.insert(both.end(), b.as_array()->begin(), b.as_array()->end());
    return both;
  }
  if (name == "additionalProperties" || name == "items" || name == "propertyNames") return all_of(a, b);
  if (name == "anyOf" || name == "oneOf") {
    if (a.as_array() == nullptr) return std::nullopt;
    PythonJson::Array both;
    for (const PythonJson& branch : *a.as_array())
      both.push_back(all_of(branch, PythonJson::Object{{name, b}}));
    return both;
  }
  if (a.as_array() != nullptr && b.as_array() != nullptr && (name == "required" || name == "enum")) {
    PythonJson::Array result = name == "required" ? *a.as_array() : PythonJson::Array{};
    for (const PythonJson& value : *b.as_array()) {
      spend_work(kWorkPerDump * std::ssize(*a.as_array()));
      const bool in_a =
          std::ranges::any_of(*a.as_array(), [text = dump_python_json(value)](const PythonJson& other) {
            return dump_python_json(other) == text;
          });
      if (in_a == (name == "enum")) result.push_back(value);
    }
    return result;
  }
  if (a.as_number() != nullptr && b.as_number() != nullptr) {
    const std::optional<Decimal> x = parse_decimal(a.as_number()->text),
                                 y = parse_decimal(b.as_number()->text);
    if (!x || !y) return std::nullopt;
    const bool a_is_less = compare(*x, *y) < 0;
    if (name.starts_with("min") || name == "exclusiveMinimum") return a_is_less ? b : a;
    if (name.starts_with("max") || name == "exclusiveMaximum") return a_is_less ? a : b;
  }
  return std::nullopt;
}

}  // namespace baleen
