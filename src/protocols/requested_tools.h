/// Tools and tool_choice, after each protocol's own wrapping is taken off.
#pragma once

#include <vector>

#include "protocols/request_fields.h"

namespace baleen {

inline constexpr std::size_t kMaxTools = 512;

/// What a request declares: `functions` stand in the prompt as they are here, in this order.
struct RequestedTools {
  std::vector<PythonJson> functions;   ///< {"name", "description", "parameters", ...}
  std::vector<DeclaredTool> declared;  ///< tools of the request, checked
  PromptProfile profile;               ///< whose rules names are read by
};

/// The name of a tool in the fields of a declaration, call or choice. By rules that have namespaces it may be
/// "namespace::name", or the fields, or what is around them (`name_space`; null: nothing), say the namespace.
/// Refuses what is no name.
[[nodiscard]] std::string required_tool_name(const RequestFields& fields, const PromptProfile& profile,
                                             const PythonJson* name_space = nullptr);

/// Whether the tool is of another type than `own_type`, that of functions in this protocol: one that its
/// provider would run itself, whose calls are no JSON, or of a kind newer than this code. It is passed over
/// and noted in `request.ignored`; the rest of the request is served.
[[nodiscard]] bool pass_over_tool(const RequestFields& tool, std::string_view own_type, ApiRequest& request);

/// Adds a function. `function` holds its fields: name, description and, under `schema_field`, the schema of
/// its arguments, `name_space` the namespace that is written around it. Refuses bad names, a name twice, and
/// a schema that is no object.
void add_tool(const RequestFields& function, std::string_view schema_field, PythonJson in_prompt,
              RequestedTools& tools, const PythonJson* name_space = nullptr);

/// A function object as the prompt shows it, from fields that the protocol wraps differently.
[[nodiscard]] PythonJson function_in_prompt(const RequestFields& function, std::string_view schema_field);

/// Whether `set_tool_choice` takes it.
[[nodiscard]] bool is_choice_word(std::string_view word);

/// One choice: "auto", "none", "required" or "any", which means the same. Refuses other words.
void set_tool_choice(const RequestFields& fields, std::string_view name, std::string_view word,
                     ToolChoice& choice);

/// Leaves in `tools` only those of these names: the prompt still declares all, the reply may call these.
/// Refuses names that are not declared.
void allow_only(const RequestFields& fields, std::string_view name, const std::vector<std::string>& names,
                std::vector<DeclaredTool>& tools);

/// Refuses a choice that the tools cannot meet: calls required without tools, a name that is not declared.
void check_tool_choice(const RequestFields& fields, std::string_view name, const ApiRequest& request);

}  // namespace baleen
