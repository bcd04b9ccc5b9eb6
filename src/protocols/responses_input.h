/// The input of a responses request: a string, or items that are messages, calls, their outputs and
/// reasoning.
#pragma once

#include "protocols/request_fields.h"

namespace baleen {

/// Reads `previous_response_id` and `input` into `request.messages`, and both as items into
/// `request.keeping`. A reasoning item, a message and calls that follow one another are one assistant message
/// of the chat format. References are resolved by `context.earlier`; a response or item that is not kept is
/// refused as the public API does it. Sealed reasoning goes before its content, content before its summary.
/// Items of other kinds, known and unknown, are noted in `request.ignored`; their calls and outputs stand in
/// the conversation as such, their texts as texts.
void read_responses_input(const RequestFields& fields, const ApiContext& context, ApiRequest& request);

}  // namespace baleen
