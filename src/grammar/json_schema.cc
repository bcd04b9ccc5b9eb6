#include <utility>

#include <fmt/format.h>

#include "grammar/compiled_grammar.h"
#include "grammar/pattern.h"
#include "grammar/schema_compiler.h"

namespace baleen {

Result<Grammar> json_schema_grammar(const PythonJson& schema) {
  static constexpr std::string_view kName = "schema";
  GraphBuilder builder;
  const BuiltinRules rules = add_builtin_rules(builder);
  SchemaCompiler compiler(builder, rules, schema);
  const NodeId begin = compiler.value(schema, std::string(kName), ValueForm::kJson, builder.end_of_rule());
  if (compiler.failure()) return *compiler.failure();
  return finish_grammar(builder, begin, rules, kName);
}

Result<Grammar> pattern_grammar(std::string_view pattern) {
  const Result<CharAutomaton> automaton = compile_pattern(fmt::format("^(?:{})$", pattern));
  if (!automaton) return Failure{automaton.error()};
  const std::optional<CharAutomaton> text = without_markup(automaton.value());
  if (!text) return failure("the pattern is too complex; shorter repetitions may help");
  GraphBuilder builder;
  const BuiltinRules rules = add_builtin_rules(builder);
  const NodeId begin = write_text(builder, *text, Writing::kRaw, builder.end_of_rule());
  return finish_grammar(builder, begin, rules, "pattern");
}

}  // namespace baleen
