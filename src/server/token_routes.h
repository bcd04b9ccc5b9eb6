/// The small JSON bodies about tokens and models.
#pragma once

#include <string>
#include <string_view>

#include "protocols/protocol.h"
#include "server/prepared_request.h"
#include "server/served_model.h"

namespace baleen {

/// One entry of `GET /v1/models`: the model, the efforts that its prompts have and the APIs' names for them.
[[nodiscard]] std::string model_json(const ServedModel& model);

/// {"prompt": TEXT} or {"messages": [...], ...as for chat completions} to {"count", "max_model_len",
/// "tokens"}. A prompt gets BOS only with "add_special_tokens": true; a conversation always has it.
[[nodiscard]] ApiResult<std::string> tokenize_reply(std::string_view body, const ServedModel& model,
                                                    const RequestPreparer& preparer,
                                                    const ApiContext& context);

/// {"tokens": [...]} to {"prompt": TEXT}.
[[nodiscard]] ApiResult<std::string> detokenize_reply(std::string_view body, const ServedModel& model);

}  // namespace baleen
