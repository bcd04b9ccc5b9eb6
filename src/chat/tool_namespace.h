/// Namespaces of tools, in formats that have them: the prompt declares a tool as "namespace::name", and so
/// the model calls it.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"
#include "chat/python_json.h"

namespace baleen {

/// Between both names.
inline constexpr std::string_view kNamespaceSeparator = "::";

/// `name_space`: its name, or an object with "name"; null or null JSON: none. A name that already begins with
/// its namespace stays as it is. Fails where both name different ones, and where a part holds the separator.
[[nodiscard]] Result<std::string> qualified_tool_name(std::string_view name, const PythonJson* name_space);

/// The function (an object with "name") as a prompt declares it: its name qualified, the namespace's
/// description on a line before its own. Its own "namespace" counts where `name_space` is none, and goes.
[[nodiscard]] Result<PythonJson> qualified_function(const PythonJson& function,
                                                    const PythonJson* name_space = nullptr);

}  // namespace baleen
