/// What a reply may be, as a byte-level grammar: JSON of a schema, or tool calls of declared functions.
///
/// A grammar is compiled once per request (and cached by its source); it says which bytes may follow,
/// whatever the vocabulary. ReplyConstraint (reply_constraint.h) walks it token by token.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "chat/call_tags.h"
#include "chat/python_json.h"

namespace baleen {

/// A function that the model may call.
struct ToolGrammar {
  std::string name;
  PythonJson parameters;  ///< JSON schema of an object; null: any arguments
  bool strict = false;    ///< all of the schema must be held, and it may not look around in patterns
};

/// What a schema asks and the grammar does not hold a reply to.
struct Unheld {
  std::optional<std::string> tool;  ///< whose schema it is; none: the reply's own
  std::string keyword;              ///< "uniqueItems"; "schema" where nothing of it is held
  std::string sentence;             ///< place and reason
};

class CompiledGrammar;  ///< immutable, shared between threads
using Grammar = std::shared_ptr<const CompiledGrammar>;

/// Any JSON object.
[[nodiscard]] Grammar json_object_grammar();

/// JSON of a schema: type (and lists of types), properties, required, additionalProperties,
/// patternProperties, propertyNames, items, prefixItems, minItems/maxItems, enum, const, anyOf/oneOf,
/// allOf, $ref/$defs (recursive too), minLength/maxLength, pattern, the usual formats, `not` of strings,
/// minimum/maximum/multipleOf of numbers. Properties come in the schema's order; white space is at most one
/// space or newline with indentation. What cannot be kept (other keywords, broken ones, what is too large;
/// docs/grammar.md lists them) is left out and noted in `unheld`; without that, or where nothing is left to
/// hold, the function fails and names the place. Takes milliseconds for usual schemas, and bounded time for
/// hostile ones. `strict`: patterns may not look around, as in strict schemas of the public APIs.
[[nodiscard]] Result<Grammar> json_schema_grammar(const PythonJson& schema,
                                                  std::vector<Unheld>* unheld = nullptr, bool strict = false);

/// A text that `pattern` (the regular subset that schemas have) matches from its first character to its last.
[[nodiscard]] Result<Grammar> pattern_grammar(std::string_view pattern);

/// A tool-call block in DSML, from the blank line before its opening tag to its end: one call or more
/// (`parallel`), of these functions; string parameters raw, others JSON of their schema; required
/// parameters there, in any order, none twice. What a tool's schema asks and cannot be kept is left out,
/// for that tool alone, and noted in `unheld`; at the worst any parameters may come. Fails when that is
/// nowhere to note or the tool is strict, and when a name cannot be written in a tag.
[[nodiscard]] Result<Grammar> tool_calls_grammar(std::span<const ToolGrammar> tools, bool parallel,
                                                 std::vector<Unheld>* unheld = nullptr,
                                                 const CallTags& tags = joined_call_tags());

/// Either JSON of `schema` or a tool-call block: for a reply of a format that may call tools instead. Of
/// the schema: whether something may be left out of it, and whether it is strict.
[[nodiscard]] Result<Grammar> json_or_tool_calls_grammar(const PythonJson& schema,
                                                         std::span<const ToolGrammar> tools, bool parallel,
                                                         std::vector<Unheld>* unheld = nullptr,
                                                         bool may_leave_out = false, bool strict = false,
                                                         const CallTags& tags = joined_call_tags());

}  // namespace baleen
