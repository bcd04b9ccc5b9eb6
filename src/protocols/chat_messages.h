/// The messages of a chat completions request.
#pragma once

#include "protocols/request_fields.h"

namespace baleen {

/// Reads `messages`: roles system (or developer, the same here), user, assistant, tool (or function, its
/// older form), and DeepSeek's latest_reminder. Calls may stand in `tool_calls`, or one in the older
/// `function_call`. An assistant's reasoning may stand in `reasoning_content`, in `reasoning`, or nowhere;
/// `prefix` marks a last assistant message that the reply continues. chat/message_json.h reads what the
/// format's own encoder takes; an API takes other things: content parts everywhere, no tools or tasks inside
/// messages.
void read_chat_messages(const RequestFields& fields, ApiRequest& request);

}  // namespace baleen
