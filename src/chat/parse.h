/// What the model wrote, taken apart: reasoning, content, tool calls.
#pragma once

#include <string_view>

#include "base/error.h"
#include "chat/call_tags.h"
#include "chat/message.h"

namespace baleen {

/// Parses a whole completion, EOS included, that began right after `<think>` (kThinking) or `</think>`
/// (kChat), as strictly as the official parser does: the same texts pass, the same fail. An argument marked
/// string="false" goes into `arguments` as the model wrote it, so `arguments` need not be valid JSON. Calls
/// have no id.
///
/// Peculiarity of the original, kept: a tool-call block cut off right after its opening tag, after an
/// invoke's header or after a parameter's line passes, with the calls read so far. For text still arriving
/// use `StreamSplitter`. Linear in the text.
Result<Message> parse_completion(std::string_view text, ThinkingMode mode,
                                 const CallTags& tags = joined_call_tags());

}  // namespace baleen
