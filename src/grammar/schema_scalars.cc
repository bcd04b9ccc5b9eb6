// Strings and numbers of a schema.
#include <algorithm>
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

std::optional<CharAutomaton> SchemaCompiler::string_rules(const PythonJson& schema, const std::string& path) {
  CharAutomaton text = any_text();
  const auto restrict_to = [&](std::string_view pattern, const std::string& where) {
    const Result<CharAutomaton> automaton = compile_pattern(pattern);
    if (!automaton) {
      wrong(where, automaton.error());
      return false;
    }
    static constexpr int kPatternSteps = 50;  // a hostile pattern costs as much time as many schemas
    steps_ += kPatternSteps + static_cast<int>(pattern.size() + automaton.value().states.size());
    std::optional<CharAutomaton> both = in_both(text, automaton.value());
    if (!both) {
      wrong(where, "too complex together with the other rules of the string");
      return false;
    }
    text = *std::move(both);
    return true;
  };
  if (const PythonJson* pattern = schema.find("pattern")) {
    if (pattern->as_string() == nullptr) {
      wrong(path + ".pattern", fmt::format("expected a string, found {}", pattern->kind()));
      return std::nullopt;
    }
    if (!restrict_to(*pattern->as_string(), path + ".pattern")) return std::nullopt;
  }
  if (const PythonJson* format = schema.find("format"); format != nullptr && format->as_string() != nullptr) {
    const std::string_view pattern = format_pattern(*format->as_string());
    if (!pattern.empty() && !restrict_to(pattern, path + ".format")) return std::nullopt;
  }
  return text;
}

NodeId SchemaCompiler::string(const PythonJson& schema, const std::string& path, bool raw, NodeId next) {
  const std::optional<CharAutomaton> rules = string_rules(schema, path);
  const std::uint64_t least = size_keyword(schema, "minLength", path).value_or(0);
  const std::uint64_t most = size_keyword(schema, "maxLength", path).value_or(kUnbounded);
  if (!rules || failure_) return next;
  if (least > most) return builder_.dead();
  const bool has_rules = rules->states.size() > 1 || rules->is_empty() || !rules->states[0].accepts ||
                         rules->states[0].edges[0].range != CharRange{0, kLastCharacter};
  const bool has_length = least > 0 || most != kUnbounded;
  if (!has_rules && !has_length) return builder_.call(raw ? rules_.raw_text : rules_.string, next);

  const NodeId after = raw ? builder_.literal(parameter_closing(), next) : next;
  const auto quoted = [&](NodeId text) { return raw ? text : builder_.byte('"', text); };
  if (most == 0) {
    if (!rules->states[0].accepts) return builder_.dead();
    return raw ? after : builder_.literal("\"\"", after);
  }
  std::optional<CharAutomaton> text = without_markup(*rules);
  if (text && !has_rules) {
    const Writing writing = raw ? Writing::kRaw : Writing::kJsonFreely;
    return quoted(write_text_counted(builder_, *text, writing, least, most, after));
  }
  if (text && has_length) text = of_length(*text, least, most);
  if (!text) return wrong(path, "pattern and lengths together are too complex; smaller bounds may help");
  return quoted(write_text(builder_, *text, raw ? Writing::kRaw : Writing::kJson, after));
}

std::optional<NumberBounds> SchemaCompiler::bounds_of(const PythonJson& schema, const std::string& path) {
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
        wrong(fmt::format("{}.{}", path, name),
              fmt::format("expected a number of at most {} digits, and {} after the point; found {}",
                          kMaxWholeDigits, kMaxFractionDigits, dump_python_json(*limit)));
        return false;
      }
      const NumberBounds::Bound found = {*decimal, name == exclusive};
      const bool is_stricter = !bound || (is_least ? compare(found.value, bound->value) >= 0
                                                   : compare(found.value, bound->value) <= 0);
      if (is_stricter) bound = found;
    }
    return true;
  };
  if (!read("minimum", "exclusiveMinimum", bounds.least, true)) return std::nullopt;
  if (!read("maximum", "exclusiveMaximum", bounds.most, false)) return std::nullopt;
  return bounds;
}

std::optional<CharAutomaton> SchemaCompiler::number_rules(const PythonJson& schema, const std::string& path,
                                                          bool integer) {
  const std::optional<NumberBounds> bounds = bounds_of(schema, path);
  if (!bounds) return std::nullopt;
  CharAutomaton number = bounded_number(*bounds, integer);
  const PythonJson* step = schema.find("multipleOf");
  if (step == nullptr) return number;
  const std::optional<Decimal> decimal =
      step->as_number() != nullptr ? parse_decimal(step->as_number()->text) : std::nullopt;
  const std::optional<CharAutomaton> multiples = decimal ? multiples_of(*decimal) : std::nullopt;
  if (!multiples) {
    wrong(path + ".multipleOf",
          fmt::format("expected a positive number of at most 10000 units of its last digit, found {}",
                      dump_python_json(*step)));
    return std::nullopt;
  }
  steps_ += static_cast<int>(multiples->states.size());
  std::optional<CharAutomaton> both = in_both(number, *multiples);
  if (!both) wrong(path + ".multipleOf", "has too many remainders; a rounder or smaller step would do");
  return both;
}

NodeId SchemaCompiler::number(const PythonJson& schema, const std::string& path, bool integer, NodeId next) {
  if (!has_number_rules(schema)) return builder_.call(integer ? rules_.integer : rules_.number, next);
  const std::optional<CharAutomaton> rules = number_rules(schema, path, integer);
  if (!rules) return next;
  return rules->is_empty() ? builder_.dead() : write_text(builder_, *rules, Writing::kRaw, next);
}

}  // namespace baleen
