/// The chat format as JSON lines, one request to one reply: what `baleen encode-chat` and `baleen parse-chat`
/// speak.
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"
#include "chat/message.h"
#include "chat/render.h"

namespace baleen {

/// The conversation of an object as `encode_chat_line` takes it; without "thinking_mode" the mode is
/// `otherwise`.
[[nodiscard]] Result<RenderedConversation> render_conversation_json(const PythonJson& object,
                                                                    ThinkingMode otherwise,
                                                                    const PromptProfile& profile);

/// {"messages": [...], "thinking_mode": "chat"|"thinking"} with optional "drop_thinking" (true),
/// "reasoning_effort" (null, or an effort of the profile: a name, or a number where it has those), "context"
/// (messages rendered before) and "add_default_bos" (true); other keys are ignored. The reply is {"prompt":
/// ...} or {"error": ...}, without a newline.
[[nodiscard]] std::string encode_chat_line(std::string_view line, const PromptProfile& profile);

/// {"text": ..., "thinking_mode": "chat"|"thinking", "tools": [...]}: reads the reply as a server does, with
/// its reader. "tools" as in the OpenAI API. Every special string in "text" is taken for the token; "pieces"
/// instead of "text" tells them apart: strings are text, {"special": "｜DSML｜"} is a token. "cut": true: a
/// limit ended the reply. "enforced": true: a grammar held the model to the syntax from the token on. The
/// reply is {"message": {...}, "dropped_calls": 0, "repairs": 0} or {"error": ...}.
[[nodiscard]] std::string read_reply_line(std::string_view line,
                                          const PromptProfile& profile = PromptProfile::kPreview);

/// {"text": ..., "thinking_mode": "chat"|"thinking"}; the reply is {"message": {...}} or {"error": ...}.
[[nodiscard]] std::string parse_chat_line(std::string_view line,
                                          const PromptProfile& profile = PromptProfile::kPreview);

}  // namespace baleen
