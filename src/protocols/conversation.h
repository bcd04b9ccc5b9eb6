/// From the messages of an API to those of the chat format, where the two disagree.
#pragma once

#include "protocols/request_fields.h"
#include "protocols/requested_tools.h"

namespace baleen {

inline constexpr std::size_t kMaxMessages = 100'000;

/// Arranges `request.messages`, whose protocol calls their list `field`, and places tools and response
/// format:
///
/// - A system message after a user or tool message, or at the end, becomes user text. The chat format asks
/// for the
///   assistant's turn after user turns alone, so there the model would never get its turn. By rules that give
///   instructions a token system messages stay where they are, for the model replies to them too.
/// - Lines of system texts that clients write for their provider's accounts, and that change with each
///   request, are left out and noted in `request.ignored`.
/// - Neighbouring system messages become one, a blank line between them: the format puts nothing there,
///   unless instructions have a token.
/// - Tools and response format stand in the first message, which is made a system message if it is none.
/// - An assistant message at the end must be one to continue (`wo_eos`).
///
/// Refuses an empty conversation.
void arrange_conversation(const RequestFields& fields, std::string_view field, RequestedTools tools,
                          ApiRequest& request);

/// The arguments of a call in the history: JSON of an object, as text or as it is, or text that is no JSON.
/// Clients write a call without arguments in many ways: nothing, null, [] (languages whose empty map is an
/// empty list), "", "null", "[]". JSON of the JSON of an object is taken for that JSON.
[[nodiscard]] std::string history_arguments(const RequestFields& call, std::string_view name);

/// `text` behind `whole`, a blank line between, as content parts are joined.
void append_part(std::string& whole, std::string_view text);

}  // namespace baleen
