#include "chat/repaired_arguments.h"

#include <algorithm>
#include <utility>

#include "chat/attributes.h"
#include "chat/json_repair.h"
#include "chat/tag.h"
#include "chat/typed_value.h"
#include "chat/white_space.h"

namespace baleen {

void RepairedArguments::add(const std::string& key, std::optional<bool> is_string, std::string_view text) {
  const ArgumentTypes types = argument_types(parameters_, key);
  if (!is_string) ++num_repairs_;
  is_doubtful_ |= hides_parameter(key, text);
  if (is_string.value_or(types.only_string()) && types.allow(ArgumentTypes::kString)) {
    put(key, quote_python_json(text));
    return;
  }
  if (is_blank(text) && !types.only_string()) {
    ++num_repairs_;
    return;
  }
  std::optional<std::string> json = json_of(text, is_string, types);
  if (json) {
    put(key, *std::move(json));
  } else {
    is_doubtful_ = true;
  }
}

/// The schema decides first, then the model's `string` attribute, then whether the text is JSON.
std::optional<std::string> RepairedArguments::json_of(std::string_view text, std::optional<bool> is_string,
                                                      const ArgumentTypes& types) {
  const std::optional<PythonJson> value = read_strict_json(text);
  const bool fits = value && types.allow(*value);
  if (fits && is_string == false) return std::string(text);
  ++num_repairs_;
  if (fits) return std::string(trimmed(text));
  if (types.only_string() && value && value->is_null()) return "null";
  if (!types.allow(ArgumentTypes::kString)) {
    if (std::optional<std::string> typed = json_of_type(text, types)) return typed;
    // JSON of another type than declared is what the model meant; the tool will say so.
    const bool is_meant = value && is_string == false && value->as_string() == nullptr;
    return is_meant ? std::optional(std::string(trimmed(text))) : std::nullopt;
  }
  if (is_string == false && !value) {
    const std::optional<std::string> repaired = repaired_json(text);
    if (repaired && types.allow(*read_strict_json(*repaired))) return repaired;
  }
  const bool was_meant_as_json = value && is_string == false && !types.only_string();
  return was_meant_as_json ? std::string(trimmed(text)) : quote_python_json(text);
}

bool RepairedArguments::take_object(std::string_view text, std::string_view tool_name) {
  const std::string_view bare = without_code_fence(text);
  std::optional<PythonJson> value = read_strict_json(bare);
  if (!value) {
    const std::optional<std::string> repaired = repaired_json(bare);
    if (repaired) value = read_strict_json(*repaired);
  }
  if (!value || value->as_object() == nullptr) return false;
  ++num_repairs_;
  const PythonJson* name = value->find("name");
  const PythonJson* arguments = value->find("arguments");
  const bool is_wrapped = value->as_object()->size() == 2 && name != nullptr && arguments != nullptr &&
                          arguments->as_object() != nullptr && name->as_string() != nullptr &&
                          *name->as_string() == tool_name;
  add_members(is_wrapped ? *arguments->as_object() : *value->as_object());
  return true;
}

void RepairedArguments::add_members(const PythonJson::Object& members) {
  for (const PythonJson::Member& member : members) {
    const std::string key = key_of(member.name).value_or(member.name);
    const ArgumentTypes types = argument_types(parameters_, key);
    const std::string* text = member.value.as_string();
    if (text != nullptr && !types.allow(ArgumentTypes::kString)) {
      add(key, true, *text);
    } else {
      put(key, dump_python_json(member.value));
    }
  }
}

std::optional<std::string> RepairedArguments::key_of(const std::optional<std::string>& name) const {
  const PythonJson::Object* properties = declared_properties(parameters_);
  if (properties == nullptr) return name;
  if (!name) return properties->size() == 1 ? std::optional(properties->front().name) : std::nullopt;
  if (declares(*name)) return name;
  const PythonJson::Member* meant = nullptr;
  for (const PythonJson::Member& property : *properties) {
    if (plain_name(property.name) != plain_name(*name)) continue;
    if (meant != nullptr) return name;
    meant = &property;
  }
  return meant == nullptr ? name : meant->name;
}

bool RepairedArguments::declares(std::string_view key) const {
  const PythonJson::Object* properties = declared_properties(parameters_);
  return properties != nullptr &&
         std::ranges::find(*properties, key, &PythonJson::Member::name) != properties->end();
}

bool RepairedArguments::may_follow(const std::string& key) const {
  const bool is_there = std::ranges::find(arguments_, key, &Argument::key) != arguments_.end();
  return !is_there && (!declares_any() || declares(key));
}

std::string RepairedArguments::json() const {
  std::string out = "{";
  for (const Argument& argument : arguments_) {
    if (out.size() > 1) out += ", ";
    out += quote_python_json(argument.key) + ": " + argument.json;
  }
  return out + "}";
}

/// Whether the text goes on, after something like a closing tag, with something like the tag of a parameter
/// that is declared and missing: then this value swallowed that parameter.
bool RepairedArguments::hides_parameter(const std::string& key, std::string_view text) const {
  for (std::size_t at = text.find('<'); at != std::string_view::npos; at = text.find('<', at + 1)) {
    std::size_t num_bytes = 0;
    const std::optional<Markup> tag = read_look_alike(text.substr(at), num_bytes);
    if (!tag || !tag->opens(Markup::Kind::kParameter)) continue;
    const std::string_view before = trimmed(text.substr(0, at));
    const std::optional<std::string> other = key_of(tag->name);
    const bool is_closed_before = without_look_alike_closers(before, key).size() < before.size();
    if (is_closed_before && other && *other != key && declares(*other) && may_follow(*other)) return true;
  }
  return false;
}

void RepairedArguments::put(const std::string& key, std::string json) {
  static constexpr std::string_view kOfTags = "<>\"\n";
  const PythonJson* additional = parameters_.find("additionalProperties");
  const bool is_closed = additional != nullptr && additional->as_bool() != nullptr && !*additional->as_bool();
  const bool is_odd = is_closed || key.find_first_of(kOfTags) != std::string::npos;
  is_doubtful_ |= declares_any() && !declares(key) && is_odd;
  const auto same = std::ranges::find(arguments_, key, &Argument::key);
  if (same == arguments_.end()) {
    arguments_.push_back({key, std::move(json)});
  } else {
    ++num_repairs_;
    is_doubtful_ |= same->json != json;
  }
}

std::string plain_name(std::string_view name) {
  std::string plain = lower_case(name);
  std::erase_if(plain,
                [](char c) { return c == '_' || c == '-' || kWhiteSpace.find(c) != std::string_view::npos; });
  return plain;
}

}  // namespace baleen
