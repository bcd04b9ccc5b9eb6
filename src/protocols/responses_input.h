/// The input of a responses request: a string, or items that are messages, calls, their outputs and reasoning.
#pragma once

#include "protocols/request_fields.h"

namespace baleen {

/// Reads `input`. A reasoning item, a message and calls that follow one another are one assistant message of the chat
/// format. Items of tools that this server does not run, and references to items it would have to keep, are refused.
void read_responses_input(const RequestFields& fields, std::vector<Message>& messages);

}  // namespace baleen
