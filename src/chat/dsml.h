/// DSML, the markup in which the model writes tool calls.
#pragma once

#include <span>
#include <string>

#include "base/error.h"
#include "chat/message.h"

namespace baleen {

/// The block from `<｜DSML｜tool_calls>` to its closing tag, without the blank line before it. A string
/// argument is written raw, anything else as JSON; arguments that are no JSON become one raw parameter named
/// "arguments". Nothing is escaped: a value that contains a closing tag cannot be represented and will not
/// read back. Fails when arguments are JSON, but not an object.
Result<std::string> render_tool_calls(std::span<const ToolCall> calls);

}  // namespace baleen
