/// The conversation of an Anthropic messages request.
#pragma once

#include "protocols/request_fields.h"

namespace baleen {

/// Reads `system` and `messages`. Blocks of a user message become tool messages and user texts in their
/// order; those of an assistant message its reasoning, text and calls. Calls of tools that a provider ran
/// itself, with their results, divide an assistant message into several; a block of another type is the text
/// that it has, or is passed over and noted in `request.ignored`. A last assistant message is one to
/// continue. Signatures of thinking are not verified; redacted thinking says nothing that this model could
/// read and is left out.
void read_messages_conversation(const RequestFields& fields, ApiRequest& request);

}  // namespace baleen
