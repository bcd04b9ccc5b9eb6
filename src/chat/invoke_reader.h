/// One invoke of a tool-call block, from its opening tag to its end, to a call or to what was dropped.
#pragma once

#include <span>

#include "chat/open_block.h"
#include "chat/reply_part.h"

namespace baleen {

/// Whether the tag is named as a declared tool, and so is the invoke of it: `<｜DSML｜get_weather>`.
[[nodiscard]] bool names_tool(const Markup& tag, std::span<const DeclaredTool> tools);

/// Reads the invoke whose opening tag is here, and adds what it is to the block.
void read_invoke(OpenBlock& block, std::span<const DeclaredTool> tools);

}  // namespace baleen
