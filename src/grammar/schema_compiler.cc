#include "grammar/schema_compiler.h"

#include <algorithm>
#include <utility>

#include "base/work_budget.h"
#include "chat/format.h"
#include "grammar/schema_keywords.h"

namespace baleen {
namespace {

/// Schemas within schemas, references followed.
constexpr int kMaxSchemaNesting = 200;

/// Notes of what was left out; more would say nothing new.
constexpr std::size_t kMaxUnheld = 200;

/// Of looking at a schema's keywords, without what they say.
constexpr std::int64_t kWorkPerSchema = 200;

/// Whether `schema` has constraints besides that one.
bool has_more_than(const PythonJson& schema, std::string_view name) {
  return std::ranges::any_of(*schema.as_object(), [&](const PythonJson::Member& member) {
    return member.name != name && is_constraint(member.name);
  });
}

}  // namespace

bool SchemaCompiler::is_anything(const PythonJson& schema) {
  if (schema.is_null()) return true;
  if (const bool* flag = schema.as_bool()) return *flag;
  return schema.as_object() != nullptr && !has_more_than(schema, {}) &&
         std::ranges::none_of(*schema.as_object(), is_unsupported);
}

NodeId SchemaCompiler::wrong(const std::string& path, std::string_view what) {
  if (!failure_) failure_ = baleen::failure("{}: {}", path, what);
  return builder_.dead();
}

void SchemaCompiler::leave_out(const std::string& path, std::string_view keyword, std::string_view what) {
  if (unheld_ == nullptr) {
    wrong(path, what);
    return;
  }
  Unheld left_out{.keyword = std::string(keyword), .sentence = fmt::format("{}: {}", path, what)};
  const bool is_known = std::ranges::find(*unheld_, left_out.sentence, &Unheld::sentence) != unheld_->end();
  if (!is_known && unheld_->size() < kMaxUnheld) unheld_->push_back(std::move(left_out));
}

/// Notes what is not kept. False after a failure.
bool SchemaCompiler::check_keywords(const PythonJson& schema, const std::string& path) {
  for (const PythonJson::Member& keyword : *schema.as_object()) {
    const bool is_kept = !is_unsupported(keyword) && (keyword.name != "not" || is_of_strings(schema));
    if (is_kept) continue;
    leave_out(path, keyword.name,
              fmt::format("{} is not supported; leave it out and check the reply instead", keyword.name));
  }
  return !failure_;
}

NodeId SchemaCompiler::value(const PythonJson& schema, const std::string& path, ValueForm form, NodeId next) {
  if (failure_ || builder_.overflowed()) return next;
  if (++steps_ > kMaxSchemaSteps) return wrong(path, "the schema is too large, or its unions multiply");
  if (depth_ >= kMaxSchemaNesting)
    return wrong(path, fmt::format("schemas nest deeper than {} levels, or without end", kMaxSchemaNesting));
  if (const bool* flag = schema.as_bool(); flag != nullptr && !*flag) return builder_.dead();
  static const PythonJson kAnything{PythonJson::Object{}};
  const bool is_schema = schema.as_object() != nullptr || schema.as_bool() != nullptr;
  if (!is_schema) {
    leave_out(path, "schema",
              fmt::format("expected a schema (an object or a boolean), found {}", schema.kind()));
  }
  const PythonJson& plain = schema.as_object() != nullptr ? schema : kAnything;
  spend_work(kWorkPerSchema * (1 + std::ssize(*plain.as_object()) / 10));
  if (!check_keywords(plain, path)) return next;

  const bool has_not_alone = plain.find("not") != nullptr && !has_more_than(plain, "not");
  if (!has_more_than(plain, {}) || has_not_alone) return anything(form, next);

  ++depth_;
  NodeId begin = next;
  const PythonJson* any_of = plain.find("anyOf") != nullptr ? plain.find("anyOf") : plain.find("oneOf");
  if (any_of != nullptr && (any_of->as_array() == nullptr || any_of->as_array()->empty())) {
    const std::string_view name = plain.find("anyOf") != nullptr ? "anyOf" : "oneOf";
    leave_out(fmt::format("{}.{}", path, name), name, "expected an array of schemas");
    const PythonJson* rest = without(plain, name);
    return failure_ ? next : value(*rest, path, form, next);
  }
  if (plain.find("$ref") != nullptr && !has_more_than(plain, "$ref")) {
    begin = reference(plain, path, form, next);
  } else if (plain.find("$ref") != nullptr || plain.find("allOf") != nullptr) {
    begin = composite(plain, path, form, next);
  } else if (any_of != nullptr) {
    const std::string_view name = plain.find("anyOf") != nullptr ? "anyOf" : "oneOf";
    begin = has_more_than(plain, name) ? composite(plain, path, form, next)
                                       : alternatives(plain, *any_of, path, form, next);
  } else if (plain.find("enum") != nullptr || plain.find("const") != nullptr) {
    begin = constants(plain, path, form, next);
  } else {
    std::vector<NodeId> ways;
    for (const std::string& type : types_of(plain, path))
      ways.push_back(of_type(plain, type, path, form, next));
    begin = builder_.split(std::move(ways));
  }
  --depth_;
  return begin;
}

NodeId SchemaCompiler::anything(ValueForm form, NodeId next) {
  if (form == ValueForm::kRawString) return builder_.call(rules_.raw_text, next);
  if (form == ValueForm::kJson) return builder_.call(rules_.value, next);
  return builder_.split({builder_.call(rules_.number, next), builder_.call(rules_.object, next),
                         builder_.call(rules_.array, next), builder_.literal("true", next),
                         builder_.literal("false", next), builder_.literal("null", next)});
}

NodeId SchemaCompiler::rule(std::string key, const PythonJson& schema, const std::string& path,
                            ValueForm form, NodeId next) {
  const auto [known, is_new] = rules_of_.try_emplace({std::move(key), form}, kNoNode);
  if (is_new) {
    const NodeId rule = known->second = builder_.later();
    builder_.set_later(rule, value(schema, path, form, builder_.end_of_rule()));
  }
  return builder_.call(known->second, next);
}

NodeId SchemaCompiler::reference(const PythonJson& schema, const std::string& path, ValueForm form,
                                 NodeId next) {
  const PythonJson* target = resolve(schema, path);
  if (failure_) return next;
  if (target == nullptr) return anything(form, next);
  const std::string& pointer = *schema.find("$ref")->as_string();
  return rule(pointer, *target, pointer, form, next);
}

NodeId SchemaCompiler::composite(const PythonJson& schema, const std::string& path, ValueForm form,
                                 NodeId next) {
  const PythonJson* all_of = schema.find("allOf");
  const bool is_single =
      all_of != nullptr && all_of->as_array() != nullptr && all_of->as_array()->size() == 1;
  if (is_single && !has_more_than(schema, "allOf")) return value((*all_of->as_array())[0], path, form, next);
  // Merging copies schemas, so a recursive one would be merged for ever; equal text is equal meaning, and a
  // rule that calls itself by its text ends that.
  std::string text = dump_python_json(schema);
  spend_work(std::ssize(text));
  static constexpr std::size_t kBytesPerStep = 200;
  steps_ += static_cast<int>(text.size() / kBytesPerStep);
  const PythonJson* flat = flatten(schema, path, 0);
  if (flat == nullptr) return next;
  return rule(std::move(text), *flat, path, form, next);
}

NodeId SchemaCompiler::alternatives(const PythonJson& schema, const PythonJson& branches,
                                    const std::string& path, ValueForm form, NodeId next) {
  const std::string name = &branches == schema.find("anyOf") ? "anyOf" : "oneOf";
  const PythonJson::Array* array = branches.as_array();
  std::vector<NodeId> ways;
  std::vector<std::string> seen;  // equal alternatives would only double the work of following them
  for (std::size_t i = 0; i < array->size() && !failure_; ++i) {
    std::string text = dump_python_json((*array)[i]);
    spend_work(std::ssize(text) + std::ssize(seen));
    if (std::ranges::find(seen, text) != seen.end()) continue;
    ways.push_back(value((*array)[i], fmt::format("{}.{}[{}]", path, name, i), form, next));
    seen.push_back(std::move(text));
  }
  return builder_.split(std::move(ways));
}

std::vector<std::string> SchemaCompiler::types_of(const PythonJson& schema, const std::string& path) {
  static const std::vector<std::string> kAll = {"null", "boolean", "number", "string", "array", "object"};
  const PythonJson* type = schema.find("type");
  std::vector<std::string> types;
  if (type == nullptr) {
    for (const PythonJson::Member& member : *schema.as_object()) {
      const std::string name(type_of_keyword(member.name));
      if (!name.empty() && std::ranges::find(types, name) == types.end()) types.push_back(name);
    }
    return types.empty() ? kAll : types;
  }
  PythonJson::Array names;
  if (type->as_array() != nullptr) names = *type->as_array();
  if (type->as_string() != nullptr) names = {*type};
  for (const PythonJson& name : names) {
    std::string text = name.as_string() == nullptr ? "" : *name.as_string();
    std::ranges::transform(text, text.begin(),  // some write STRING
                           [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c; });
    if (!is_type_name(text)) {
      leave_out(path + ".type", "type",
                fmt::format("expected the name of a type, found {}", dump_python_json(name)));
      return failure_ ? std::vector<std::string>() : kAll;
    }
    if (std::ranges::find(types, text) == types.end()) types.push_back(std::move(text));
  }
  if (types.empty()) {
    leave_out(path + ".type", "type", "expected the name of a type, or a list of such names");
    return failure_ ? std::vector<std::string>() : kAll;
  }
  if (std::ranges::find(types, "number") != types.end()) std::erase(types, "integer");
  return types;
}

NodeId SchemaCompiler::of_type(const PythonJson& schema, const std::string& type, const std::string& path,
                               ValueForm form, NodeId next) {
  const bool is_string = type == "string";
  if (is_string ? form == ValueForm::kNoString : form == ValueForm::kRawString) return builder_.dead();
  if (is_string) return string(schema, path, form == ValueForm::kRawString, next);
  if (type == "null") return builder_.literal("null", next);
  if (type == "boolean")
    return builder_.split({builder_.literal("true", next), builder_.literal("false", next)});
  if (type == "integer" || type == "number") return number(schema, path, type == "integer", next);
  return type == "array" ? array(schema, path, next) : object(schema, path, next);
}

std::optional<std::uint64_t> SchemaCompiler::size_keyword(const PythonJson& schema, std::string_view name,
                                                          const std::string& path) {
  const PythonJson* size = schema.find(name);
  if (size == nullptr) return std::nullopt;
  static constexpr std::size_t kMaxDigits = 9;
  const std::optional<Decimal> decimal =
      size->as_number() != nullptr ? parse_decimal(size->as_number()->text) : std::nullopt;
  if (!decimal || decimal->negative || !decimal->fraction.empty() || decimal->whole.size() > kMaxDigits) {
    leave_out(fmt::format("{}.{}", path, name), name,
              fmt::format("expected a whole number from 0 to 999999999, found {}", dump_python_json(*size)));
    return std::nullopt;
  }
  return decimal->whole.empty() ? 0 : std::stoull(decimal->whole);
}

NodeId SchemaCompiler::constants(const PythonJson& schema, const std::string& path, ValueForm form,
                                 NodeId next) {
  PythonJson::Array values;
  const PythonJson* only = schema.find("const");
  const PythonJson* list = schema.find("enum");
  if (list != nullptr && list->as_array() == nullptr) {
    leave_out(path + ".enum", "enum", "expected an array of values");
    return failure_ ? next : value(*without(schema, "enum"), path, form, next);
  }
  if (list != nullptr) {
    values = *list->as_array();
    if (only != nullptr)
      std::erase_if(values,
                    [&](const PythonJson& v) { return dump_python_json(v) != dump_python_json(*only); });
  } else {
    values = {*only};
  }
  const Siblings siblings = siblings_of(schema, path);
  std::vector<std::string> texts;
  for (const PythonJson& candidate : values) {
    if (!fits(candidate, siblings, schema, path)) continue;
    const std::string* text = candidate.as_string();
    if (text != nullptr ? form == ValueForm::kNoString : form == ValueForm::kRawString) continue;
    texts.push_back(form == ValueForm::kRawString ? *text + std::string(rules_.parameter_closing)
                                                  : dump_python_json(candidate));
    spend_work(std::ssize(texts.back()));
    const std::string_view value_text = form == ValueForm::kRawString ? *text : texts.back();
    const bool is_finite =
        candidate.as_number() == nullptr || (value_text.find("NaN") == std::string_view::npos &&
                                             value_text.find("Infinity") == std::string_view::npos);
    const bool can_be_written = value_text.find(chat_format::kDsml) == std::string_view::npos;
    if (is_finite && can_be_written) continue;
    leave_out(path, list != nullptr ? "enum" : "const",
              is_finite ? fmt::format("a constant holds {}, which no reply may", chat_format::kDsml)
                        : "a constant is no finite number");
    texts.pop_back();
  }
  std::vector<std::pair<std::string_view, NodeId>> literals;
  for (const std::string& text : texts) literals.emplace_back(text, next);
  return builder_.literals(std::move(literals));
}

/// The constraints beside enum or const, read once for all its values.
SchemaCompiler::Siblings SchemaCompiler::siblings_of(const PythonJson& schema, const std::string& path) {
  Siblings siblings;
  if (schema.find("type") != nullptr) siblings.types = types_of(schema, path);
  bool has_rules = false;
  siblings.texts = string_rules(schema, path, has_rules);
  if (has_number_rules(schema)) siblings.number = number_rules(schema, path, false);
  return siblings;
}

bool SchemaCompiler::fits(const PythonJson& candidate, const Siblings& siblings, const PythonJson& schema,
                          const std::string& path) {
  const auto is_of = [&](const std::string& type) { return has_type(candidate, type); };
  if (schema.find("type") != nullptr && std::ranges::none_of(siblings.types, is_of)) return false;
  if (const std::string* text = candidate.as_string()) {
    return accepts(siblings.texts, to_characters(*text));
  }
  if (const PythonJson::Number* number = candidate.as_number())
    return !siblings.number || accepts(*siblings.number, to_characters(number->text));
  for (const PythonJson::Member& member : *schema.as_object()) {
    const std::string_view type = type_of_keyword(member.name);
    if (type.empty() || !has_type(candidate, type)) continue;
    leave_out(path, member.name,
              fmt::format("{} beside enum or const is not supported for arrays and objects", member.name));
    return !failure_;
  }
  return true;
}

}  // namespace baleen
