/// JSON and server-sent events of replies, and the pieces that several protocols share.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "protocols/protocol.h"

namespace baleen {

/// Keeps the order in which fields are written.
using ReplyJson = nlohmann::ordered_json;

/// One line, also to readers that end a line at U+0085, U+2028 or U+2029: these are escaped. Bytes that are
/// no UTF-8 come out as U+FFFD.
[[nodiscard]] std::string json_text(const ReplyJson& json);

/// Numbers that JSON cannot hold become null; integers past 64 bits lose digits.
[[nodiscard]] ReplyJson to_reply_json(const PythonJson& value);

/// data: {...}
[[nodiscard]] std::string data_event(const ReplyJson& json);
/// event: TYPE, data: {"type": TYPE, ...}
[[nodiscard]] std::string typed_event(const ReplyJson& json);

/// stop, length or tool_calls: OpenAI's finish_reason; repetition, as vLLM has it, for a reply that looped. A
/// cancelled reply was cut, so it ends like one cut by a limit.
[[nodiscard]] std::string_view finish_reason(ReplyEnd end);

/// {"type": "malformed_tool_call", "dropped_calls": N}: why a reply that was to call tools did not, or not
/// all. An addition to the protocols, sent as "finish_details" beside the finish reason, and only if calls
/// were dropped.
[[nodiscard]] ReplyJson finish_details(std::size_t num_dropped_calls);

/// {"token", "logprob", "bytes", "top_logprobs"}
[[nodiscard]] ReplyJson logprob_json(const TokenLogprobs& token);

/// Finite whatever the model said: -9999 for tokens that cannot be, as OpenAI writes.
[[nodiscard]] double printable_logprob(double logprob);

/// {"message", "type", "param", "code"}, null where empty: the inside of OpenAI's errors.
[[nodiscard]] ReplyJson openai_error(const ApiError& error);

}  // namespace baleen
