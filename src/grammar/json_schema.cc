#include <utility>

#include "grammar/compiled_grammar.h"
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

}  // namespace baleen
