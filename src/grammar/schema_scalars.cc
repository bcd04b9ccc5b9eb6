// Strings and numbers of a schema.
#include <algorithm>
#include <iterator>
#include <utility>

#include "grammar/pattern.h"
#include "grammar/schema_compiler.h"
#include "grammar/schema_keywords.h"

namespace baleen {

bool SchemaCompiler::has_number_rules(const PythonJson& schema) {
  return std::ranges::any_of(*schema.as_object(), [](const PythonJson::Member& member) {
    return type_of_keyword(member.name) == "number";
  });
}

/// Whether a schema speaks of strings alone, so that `not` beside it does.
bool SchemaCompiler::is_of_strings(const PythonJson& schema) {
  const PythonJson* type = schema.find("type");
  return type != nullptr && type->as_string() != nullptr && *type->as_string() == "string";
}

/// Leaves in `texts` those that match. False: the pattern cannot be kept.
bool SchemaCompiler::restrict_to(std::string_view pattern, std::string_view keyword, const std::string& path,
                                 TextSet& texts) {
  const std::string where = fmt::format("{}.{}", path, keyword);
  if (strict_ && looks_around(pattern)) {
    leave_out(
        where, keyword,
        "the pattern looks ahead or behind, which strict schemas may not; without strict it is held, too");
    return false;
  }
  const Result<TextSet> found = compile_pattern(pattern);
  if (!found) {
    leave_out(where, keyword, found.error());
    return false;
  }
  static constexpr int kPatternSteps = 50;  // a hostile pattern costs as much time as many schemas
  steps_ += kPatternSteps + static_cast<int>(pattern.size());
  for (const SizedTexts& part : found.value()) steps_ += static_cast<int>(part.automaton.states.size());
  std::optional<TextSet> both = in_both(texts, found.value());
  if (!both) {
    leave_out(where, keyword, "too complex together with the other rules of the string");
    return false;
  }
  texts = *std::move(both);
  return true;
}

TextSet SchemaCompiler::string_rules(const PythonJson& schema, const std::string& path, bool& has_rules) {
  const std::uint64_t least = size_keyword(schema, "minLength", path).value_or(0);
  const std::uint64_t most = size_keyword(schema, "maxLength", path).value_or(kUnbounded);
  TextSet texts = texts_of_length(least, most);
  const auto restrict_by = [&](const PythonJson& pattern, std::string_view keyword) {
    if (const std::string* text = pattern.as_string()) {
      has_rules |= restrict_to(*text, keyword, path, texts);
    } else {
      leave_out(fmt::format("{}.{}", path, keyword), keyword,
                fmt::format("expected a string, found {}", pattern.kind()));
    }
  };
  if (const PythonJson* pattern = schema.find("pattern")) restrict_by(*pattern, "pattern");
  if (const PythonJson* more = schema.find(kMorePatterns); more != nullptr && more->as_array() != nullptr) {
    for (const PythonJson& pattern : *more->as_array()) restrict_by(pattern, "pattern");
  }
  if (const PythonJson* format = schema.find("format"); format != nullptr && format->as_string() != nullptr) {
    const std::string_view pattern = format_pattern(*format->as_string());
    if (!pattern.empty()) has_rules |= restrict_to(pattern, "format", path, texts);
  }
  if (const PythonJson* excluded = schema.find("not"); excluded != nullptr && is_of_strings(schema)) {
    std::optional<TextSet> rest = all_but(strings_of(*excluded, path + ".not", 0));
    if (rest) rest = in_both(texts, *rest);
    if (rest) {
      texts = *std::move(rest);
      has_rules = true;
    } else {
      leave_out(path, "not", "what not excludes is too complex, or has bounds of length");
    }
  }
  return texts;
}

TextSet SchemaCompiler::strings_of(const PythonJson& schema, const std::string& path, int depth) {
  static constexpr int kMaxDepth = 20;
  const TextSet all = texts_of_length(0, kUnbounded);
  if (const bool* flag = schema.as_bool()) return *flag ? all : TextSet();
  if (schema.as_object() == nullptr || !check_keywords(schema, path)) return all;
  const PythonJson* flat = depth < kMaxDepth ? flatten(schema, path, 0) : nullptr;
  if (flat == nullptr) {
    leave_out(path, "$ref", "its references cannot be followed");
    return all;
  }
  for (const std::string_view name : {"anyOf", "oneOf"}) {
    const PythonJson* branches = flat->find(name);
    if (branches == nullptr || branches->as_array() == nullptr) continue;
    TextSet either;
    for (const PythonJson& branch : *branches->as_array()) {
      TextSet more = strings_of(branch, path, depth + 1);
      either.insert(either.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
      if (either.size() <= kMaxTextParts) continue;
      leave_out(path, name, "too many alternatives");
      return all;
    }
    return either;
  }
  const std::vector<std::string> types = types_of(*flat, path);
  if (flat->find("type") != nullptr && std::ranges::find(types, "string") == types.end()) return {};
  bool has_rules = false;
  TextSet texts = string_rules(*flat, path, has_rules);
  const PythonJson *list = flat->find("enum"), *only = flat->find("const");
  if (list == nullptr && only == nullptr) return texts;
  std::vector<std::u32string> words;
  const auto add = [&](const PythonJson& value) {
    const std::string* text = value.as_string();
    if (text == nullptr || (only != nullptr && dump_python_json(value) != dump_python_json(*only))) return;
    if (accepts(texts, to_characters(*text))) words.push_back(to_characters(*text));
  };
  if (list != nullptr && list->as_array() != nullptr) {
    std::ranges::for_each(*list->as_array(), add);
  } else if (only != nullptr) {
    add(*only);
  }
  std::optional<CharAutomaton> automaton = only_words(words);
  if (automaton) return {{.automaton = *std::move(automaton)}};
  leave_out(path, "enum", "too many or too long texts");
  return texts;
}

NodeId SchemaCompiler::string(const PythonJson& schema, const std::string& path, bool raw, NodeId next) {
  bool has_rules = false;
  const TextSet texts = string_rules(schema, path, has_rules);
  if (failure_) return next;
  const bool is_any = !has_rules && texts.size() == 1 && texts[0].least == 0 && texts[0].most == kUnbounded;
  if (is_any) return builder_.call(raw ? rules_.raw_text : rules_.string, next);

  const NodeId after = raw ? builder_.literal(rules_.parameter_closing, next) : next;
  const Writing writing = raw ? Writing::kRaw : has_rules ? Writing::kJson : Writing::kJsonFreely;
  const std::optional<TextSet> plain = without_markup(texts);
  std::optional<NodeId> text;
  if (plain) text = write_texts(builder_, *plain, writing, after);
  if (!text) {
    leave_out(path, "pattern", "its rules and lengths together are too complex; simpler ones may help");
    return failure_ ? next : builder_.call(raw ? rules_.raw_text : rules_.string, next);
  }
  return raw ? *text : builder_.byte('"', *text);
}

NumberBounds SchemaCompiler::bounds_of(const PythonJson& schema, const std::string& path) {
  NumberBounds bounds;
  const auto read = [&](std::string_view inclusive, std::string_view exclusive,
                        std::optional<NumberBounds::Bound>& bound, bool is_least) {
    for (const std::string_view name : {inclusive, exclusive}) {
      const PythonJson* limit = schema.find(name);
      if (limit == nullptr) continue;
      if (const bool* flag = limit->as_bool(); flag != nullptr && name == exclusive) {  // as in draft 4
        if (bound) bound->exclusive = *flag;
        continue;
      }
      const std::optional<Decimal> decimal =
          limit->as_number() != nullptr ? parse_decimal(limit->as_number()->text) : std::nullopt;
      if (!decimal) {
        leave_out(fmt::format("{}.{}", path, name), name,
                  fmt::format("expected a number of at most {} digits, and {} after the point; found {}",
                              kMaxWholeDigits, kMaxFractionDigits, dump_python_json(*limit)));
        continue;
      }
      const NumberBounds::Bound found = {*decimal, name == exclusive};
      const bool is_stricter = !bound || (is_least ? compare(found.value, bound->value) >= 0
                                                   : compare(found.value, bound->value) <= 0);
      if (is_stricter) bound = found;
    }
  };
  read("minimum", "exclusiveMinimum", bounds.least, true);
  read("maximum", "exclusiveMaximum", bounds.most, false);
  return bounds;
}

std::optional<CharAutomaton> SchemaCompiler::number_rules(const PythonJson& schema, const std::string& path,
                                                          bool integer) {
  CharAutomaton number = bounded_number(bounds_of(schema, path), integer);
  if (failure_) return std::nullopt;
  const PythonJson* step = schema.find("multipleOf");
  if (step == nullptr) return number;
  const std::optional<Decimal> decimal =
      step->as_number() != nullptr ? parse_decimal(step->as_number()->text) : std::nullopt;
  const std::optional<CharAutomaton> multiples = decimal ? multiples_of(*decimal) : std::nullopt;
  if (!multiples) {
    leave_out(path + ".multipleOf", "multipleOf",
              fmt::format("expected a positive number of at most 10000 units of its last digit, found {}",
                          dump_python_json(*step)));
    return number;
  }
  steps_ += static_cast<int>(multiples->states.size());
  std::optional<CharAutomaton> both = in_both(number, *multiples);
  if (both) return both;
  leave_out(path + ".multipleOf", "multipleOf",
            "has too many remainders; a rounder or smaller step would do");
  return number;
}

NodeId SchemaCompiler::number(const PythonJson& schema, const std::string& path, bool integer, NodeId next) {
  if (!has_number_rules(schema)) return builder_.call(integer ? rules_.integer : rules_.number, next);
  const std::optional<CharAutomaton> rules = number_rules(schema, path, integer);
  if (!rules || failure_) return next;
  return rules->is_empty() ? builder_.dead() : write_text(builder_, *rules, Writing::kRaw, next);
}

}  // namespace baleen
