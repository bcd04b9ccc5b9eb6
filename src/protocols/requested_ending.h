/// When thinking and the reply shall end, beside stop strings and the limit of tokens.
#pragma once

#include "protocols/protocol.h"
#include "protocols/request_fields.h"

namespace baleen {

/// A budget for the thinking in `name`: tokens, or -1 for none. Refused where it contradicts one that was
/// read before.
void set_thinking_budget(const RequestFields& fields, std::string_view name, ApiRequest& request);

/// `max_thinking_tokens`, and what other servers call it: `thinking_budget`, `thinking_token_budget`,
/// `thinking_budget_tokens`.
void read_thinking_budget(const RequestFields& fields, ApiRequest& request);

/// `repetition_detection`: false, true, or an object with max_pattern_size (0: off), min_pattern_size and
/// min_count, which are vLLM's, and min_tokens. Where vLLM's min_count comes without min_tokens, as few
/// tokens are enough as vLLM wants.
void read_repetition_detection(const RequestFields& fields, ApiRequest& request);

}  // namespace baleen
