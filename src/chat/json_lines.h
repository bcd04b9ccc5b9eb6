/// The chat format as JSON lines, one request to one reply: what `baleen encode-chat` and `baleen parse-chat`
/// speak.
#pragma once

#include <string>
#include <string_view>

namespace baleen {

/// {"messages": [...], "thinking_mode": "chat"|"thinking"} with optional "drop_thinking" (true),
/// "reasoning_effort" (null, "high", "max"), "context" (messages rendered before) and "add_default_bos"
/// (true); other keys are ignored. The reply is {"prompt": ...} or {"error": ...}, without a newline.
[[nodiscard]] std::string encode_chat_line(std::string_view line);

/// {"text": ..., "thinking_mode": "chat"|"thinking"}; the reply is {"message": {...}} or {"error": ...}.
[[nodiscard]] std::string parse_chat_line(std::string_view line);

}  // namespace baleen
