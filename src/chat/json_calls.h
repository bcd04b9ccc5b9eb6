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

/// One {"name": .., "arguments": {..}} or a list of them, perhaps in a code fence; arguments may be the text of an
/// object, and stand within "function" as in the OpenAI API. Nothing when any of it is something else.
[[nodiscard]] std::optional<std::vector<JsonCall>> json_calls(std::string_view text);

}  // namespace baleen
