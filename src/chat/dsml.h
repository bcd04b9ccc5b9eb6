/// DSML, the markup in which the model writes tool calls.
#pragma once

#include <span>
#include <string_view>

#include "base/error.h"
#include "base/marked_text.h"
#include "chat/message.h"
#include "chat/prompt_profile.h"

namespace baleen {

/// The block from its opening to its closing tag, without the blank line before it. A string argument is
/// written raw, anything else as JSON; arguments that are no JSON become one raw parameter named "arguments".
/// Nothing is escaped: a value that contains a closing tag reads back only where the tokens of the tags,
/// which are marked, are distinguished from its text. Fails when arguments are JSON, but not an object,
/// unless the rules take those too.
Result<MarkedText> render_tool_calls(std::span<const ToolCall> calls,
                                     const PromptRules& rules = prompt_rules(PromptProfile::kPreview));

/// The text of a block as the model wrote it, `｜DSML｜` marked: in what a server keeps that is in tags alone.
[[nodiscard]] MarkedText with_marked_tags(std::string_view block);

}  // namespace baleen
