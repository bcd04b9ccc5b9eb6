#include "chat/repaired_arguments.h"

#include <algorithm>
#include <utility>

#include "chat/argument_types.h"
#include "chat/attributes.h"
#include "chat/call_check.h"
#include "chat/json_calls.h"
#include "chat/json_repair.h"
#include "chat/spellings.h"
#include "chat/tag.h"
#include "chat/typed_value.h"
#include "chat/white_space.h"

namespace baleen {

namespace {

/// A text in double quotation marks which is no JSON string: more than one string could have been meant.
bool is_broken_json_string(std::string_view text) {
  const std::string_view bare = trimmed(text);
  return bare.size() > 1 && bare.starts_with('"') && bare.ends_with('"');
}

}  // namespace

void RepairedArguments::add(const std::string& key, std::optional<bool> is_string, std::string_view text) {
  const PythonJson& schema = schema_of(key);
  const ArgumentTypes types = types_of_schema(schema);
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
  std::optional<std::string> json = json_of(text, is_string, schema);
  if (json) {
    put(key, *std::move(json));
  } else {
    is_doubtful_ = true;
  }
}

/// The schema decides first, then the model's `string` attribute, then whether the text is JSON.
std::optional<std::string> RepairedArguments::json_of(std::string_view text, std::optional<bool> is_string,
                                                      const PythonJson& schema) {
  const ArgumentTypes types = types_of_schema(schema);
  const std::optional<PythonJson> value = read_strict_json(text);
  const bool fits = value && types.allow(*value);
  if (fits && is_string == false) return std::string(text);
  if (value && value->is_null() && is_string == false)
    return "null";  // where it may be left out, that means so
  ++num_repairs_;
  if (fits) return std::string(trimmed(text));
  if (!types.allow(ArgumentTypes::kString)) return json_of_type(text, schema);
  // A list is as likely meant as one as it is a string's text.
  if (value) return value->as_array() != nullptr ? std::nullopt : std::optional(quote_python_json(text));
  if (is_string == false) {
    std::vector<PythonJson> readings = json_readings(text);
    std::erase_if(readings, [&](const PythonJson& reading) { return !fits_schema(reading, schema); });
    if (readings.size() == 1) return dump_python_json(readings.front());
    if (readings.size() > 1 || is_broken_json_string(text)) return std::nullopt;
  }
  return quote_python_json(text);
}

void RepairedArguments::add_members(const PythonJson::Object& members) {
  ++num_repairs_;
  for (const PythonJson::Member& member : members) {
    const std::string key = key_of(member.name).value_or(member.name);
    const ArgumentTypes types = types_of_schema(schema_of(key));
    const std::string* text = member.value.as_string();
    if (text != nullptr && !types.allow(ArgumentTypes::kString)) {
      add(key, true, *text);
    } else {
      put(key, dump_python_json(member.value));
    }
  }
}

std::optional<std::string> RepairedArguments::key_of(const std::optional<std::string>& name) const {
  const PythonJson::Object* properties = declared_properties(*parameters_);
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

bool RepairedArguments::declares_any() const { return declared_properties(*parameters_) != nullptr; }

const PythonJson& RepairedArguments::schema_of(std::string_view key) const {
  static const PythonJson kNone;
  const PythonJson* properties = parameters_->find("properties");
  const PythonJson* schema = properties == nullptr ? nullptr : properties->find(key);
  return schema == nullptr ? kNone : *schema;
}

bool RepairedArguments::may_be_called(bool is_repaired) const {
  PythonJson::Object arguments;
  for (const Argument& argument : arguments_)
    arguments.push_back({argument.key, read_strict_json(argument.json).value_or(PythonJson())});
  return !is_doubtful_ && baleen::may_be_called(*parameters_, arguments, is_repaired || num_repairs_ > 0);
}

bool RepairedArguments::declares(std::string_view key) const {
  const PythonJson::Object* properties = declared_properties(*parameters_);
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
  const PythonJson* additional = parameters_->find("additionalProperties");
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

namespace {

/// All that a body may mean as arguments.
void add_candidates(const PythonJson& body, std::string_view name, const PythonJson& parameters,
                    std::vector<PythonJson::Object>& candidates) {
  if (body.as_string() != nullptr) {
    const std::vector<PythonJson> inner = json_readings(*body.as_string());
    const bool is_deeper = inner.size() == 1 && dump_python_json(inner.front()) != dump_python_json(body);
    if (is_deeper) add_candidates(inner.front(), name, parameters, candidates);
    return;
  }
  if (const PythonJson::Array* list = body.as_array()) {
    const bool is_one = list->size() == 1 && list->front().as_object() != nullptr;
    if (is_one) add_candidates(list->front(), name, parameters, candidates);
    return;
  }
  const std::optional<JsonCall> call = json_call(body);
  const bool is_call = call && plain_name(call->name) == plain_name(name);
  if (is_call) candidates.push_back(call->arguments);
  if (auto wrapped = wrapped_arguments(body)) candidates.push_back(*std::move(wrapped));
  // Without a schema anything fits: then a call in full is one.
  const bool says_all = declared_properties(parameters) == nullptr && is_call;
  if (body.as_object() != nullptr && !says_all) candidates.push_back(*body.as_object());
}

}  // namespace

std::optional<RepairedArguments> arguments_of_bodies(std::span<const PythonJson> bodies,
                                                     std::string_view name, const PythonJson& parameters) {
  std::vector<PythonJson::Object> candidates;
  for (const PythonJson& body : bodies) add_candidates(body, name, parameters, candidates);
  std::optional<RepairedArguments> found;
  for (const PythonJson::Object& members : candidates) {
    RepairedArguments arguments(parameters);
    arguments.add_members(members);
    if (!arguments.may_be_called(true)) continue;
    if (found && found->json() != arguments.json()) return std::nullopt;
    found = std::move(arguments);
  }
  return found;
}

std::string plain_name(std::string_view name) {
  std::string plain = lower_case(in_plain_spelling(name).text);
  static constexpr std::string_view kAround = "_-\\\"':=@$[]{}()<>|";
  std::erase_if(plain, [](char c) {
    return kAround.find(c) != std::string_view::npos || kWhiteSpace.find(c) != std::string_view::npos;
  });
  return plain;
}

}  // namespace baleen
