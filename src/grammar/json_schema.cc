#include <utility>

#include <fmt/format.h>

#include "grammar/compiled_grammar.h"
#include "grammar/pattern.h"
#include "grammar/schema_compiler.h"

namespace baleen {

Result<Grammar> json_schema_grammar(const PythonJson& schema, std::vector<Unheld>* unheld, bool strict) {
  static constexpr std::string_view kName = "schema";
  GraphBuilder builder;
  const BuiltinRules rules = add_builtin_rules(builder);
  SchemaCompiler compiler(builder, rules, schema, unheld, strict);
  const NodeId begin = compiler.value(schema, std::string(kName), ValueForm::kJson, builder.end_of_rule());
  Result<Grammar> grammar = compiler.failure() ? Result<Grammar>(*compiler.failure())
                                               : finish_grammar(builder, begin, rules, kName);
  if (!grammar && unheld != nullptr) {
    unheld->assign(1, {.keyword = "schema", .sentence = grammar.error()});
    grammar = any_json_grammar();
  }
  return grammar;
}

Result<Grammar> pattern_grammar(std::string_view pattern) {
  const Result<TextSet> found = compile_pattern(fmt::format("^(?:{})$", pattern));
  if (!found) return Failure{found.error()};
  GraphBuilder builder;
  const BuiltinRules rules = add_builtin_rules(builder);
  const std::optional<TextSet> texts = without_markup(found.value());
  std::optional<NodeId> begin;
  if (texts) begin = write_texts(builder, *texts, Writing::kRaw, builder.end_of_rule());
  if (!begin) return failure("the pattern is too complex; shorter repetitions may help");
  return finish_grammar(builder, *begin, rules, "pattern");
}

}  // namespace baleen
