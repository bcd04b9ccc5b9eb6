/// Text of a tool-call block that is the JSON of calls, to items of the block.
#pragma once

#include <span>
#include <string>

#include "chat/open_block.h"
#include "chat/reply_part.h"

namespace baleen {

/// Adds the calls that `text` means, or, where they cannot be read in one way only or may not be made, what
/// was dropped. False: the text is no JSON of calls, and `block` is as it was.
[[nodiscard]] bool add_json_calls(OpenBlock& block, const std::string& text,
                                  std::span<const DeclaredTool> tools);

}  // namespace baleen
