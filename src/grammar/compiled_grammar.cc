#include "grammar/compiled_grammar.h"

#include <utility>

namespace baleen {

Result<Grammar> finish_grammar(GraphBuilder& builder, NodeId begin, const BuiltinRules& rules,
                               std::string_view what) {
  if (builder.overflowed()) {
    return failure("{}: too large for a grammar (more than {} nodes); fewer or shorter alternatives would do",
                   what, kMaxNodes);
  }
  if (has_empty_cycle(builder.graph()))
    return failure("{}: a $ref leads back to itself without anything in between", what);
  std::vector<std::uint16_t> heights = node_heights(builder.graph());
  if (heights[begin] > kMaxCallDepth) {
    return heights[begin] == kUnreachable
               ? failure("{}: no finite value fits it", what)
               : failure("{}: every value would nest deeper than {} levels", what, kMaxCallDepth);
  }
  return Grammar(
      std::make_shared<const CompiledGrammar>(builder.take(), std::move(heights), begin, rules.end));
}

Grammar any_json_grammar() {
  GraphBuilder builder;
  const BuiltinRules rules = add_builtin_rules(builder);
  return finish_grammar(builder, rules.value, rules, "any JSON").value();
}

Grammar json_object_grammar() {
  GraphBuilder builder;
  const BuiltinRules rules = add_builtin_rules(builder);
  return finish_grammar(builder, rules.object, rules, "any object").value();
}

}  // namespace baleen
