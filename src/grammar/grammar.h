/// What a reply may be, as a byte-level grammar: JSON of a schema, or tool calls of declared functions.
///
/// A grammar is compiled once per request (and cached by its source); it says which bytes may follow, whatever the
/// vocabulary. ReplyConstraint (reply_constraint.h) walks it token by token.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "chat/python_json.h"

namespace baleen {

/// A function that the model may call.
struct ToolGrammar {
  std::string name;
  PythonJson parameters;  ///< JSON schema of an object; null: any arguments
};

class CompiledGrammar;  ///< immutable, shared between threads
using Grammar = std::shared_ptr<const CompiledGrammar>;

/// Any JSON object.
[[nodiscard]] Grammar json_object_grammar();

/// JSON of a schema: type (and lists of types), properties, required, additionalProperties, items, prefixItems,
/// minItems/maxItems, enum, const, anyOf/oneOf, allOf of objects, $ref/$defs (recursive too), minLength/maxLength,
/// pattern (a regular subset), format date, time, date-time, uuid, minimum/maximum of numbers. Properties come in
/// the schema's order; white space is at most one space or newline with indentation. Fails, naming the place, on
/// what it would otherwise have to ignore silently, and on what is too large; docs/grammar.md lists both. Takes
/// milliseconds for usual schemas, and bounded time for hostile ones.
[[nodiscard]] Result<Grammar> json_schema_grammar(const PythonJson& schema);

/// A text that `pattern` (the regular subset that schemas have) matches from its first character to its last.
[[nodiscard]] Result<Grammar> pattern_grammar(std::string_view pattern);

/// A tool-call block in DSML, from the blank line before `<｜DSML｜tool_calls>` to its end: one call or more
/// (`parallel`), of these functions; string parameters raw, others JSON of their schema; required parameters there,
/// in any order, none twice. Fails as above, and when a name cannot be written in a tag.
[[nodiscard]] Result<Grammar> tool_calls_grammar(std::span<const ToolGrammar> tools, bool parallel);

/// Either JSON of `schema` or a tool-call block: for a reply of a format that may call tools instead.
[[nodiscard]] Result<Grammar> json_or_tool_calls_grammar(const PythonJson& schema,
                                                         std::span<const ToolGrammar> tools, bool parallel);

}  // namespace baleen
