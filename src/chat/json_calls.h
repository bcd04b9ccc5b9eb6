/// Calls that a model wrote as JSON within the block, where invokes belong.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "chat/python_json.h"

namespace baleen {

struct JsonCall {
  std::string name;
  PythonJson::Object arguments;
};

/// One call as an object: its name as "name", "tool", "function" or such, its arguments as "arguments",
/// "input", "parameters" or such, an object or the text of one; perhaps an id and a type beside them; perhaps
/// all of it within "function", as in the OpenAI API. Nothing when it is something else.
[[nodiscard]] std::optional<JsonCall> json_call(const PythonJson& value);

/// The calls that the text may mean, each meaning once: one call or a list of them, perhaps within
/// "tool_calls", perhaps in a code fence.
[[nodiscard]] std::vector<std::vector<JsonCall>> json_calls(std::string_view text);

/// What a single member wraps whose name is one of those for arguments: an object or the text of one.
[[nodiscard]] std::optional<PythonJson::Object> wrapped_arguments(const PythonJson& value);

/// Whether `name` is one of those for arguments.
[[nodiscard]] bool wraps_arguments(std::string_view name);

}  // namespace baleen
