// A request parser under any bytes, and what follows in the server when it accepts: the prompt is rendered, a
// reply encoded. The first byte cuts the reply's text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/utf8.h"
#include "chat/render.h"
#include "protocols/protocol.h"

namespace baleen {

inline void check_reply(ApiRequest request, std::string_view text, std::size_t cut) {
  using Kind = ReplyPart::Kind;
  cut = std::min(cut, text.size());
  const std::vector<ReplyPart> parts = {{Kind::kReasoning, std::string(text.substr(0, cut))},
                                        {Kind::kContent, std::string(text.substr(cut))},
                                        {Kind::kCallBegin, "f"},
                                        {Kind::kCallArguments, std::string(text.substr(0, cut))},
                                        {Kind::kCallEnd, ""}};
  for (const bool stream : {false, true}) {
    request.stream = stream;
    const auto encoder = make_encoder(request, {.id = "1", .model = request.model}, {});
    std::string bytes = encoder->begin();
    bytes += encoder->parts(0, parts, {{.token = {std::string(text.substr(0, cut)), -1}, .top = {}}});
    bytes += encoder->choice_finished(0, ReplyEnd::kStopToken, "");
    bytes += encoder->finish({});
    BALEEN_CHECK(!find_invalid_utf8(bytes));
    if (!stream) BALEEN_CHECK(parse_python_json(bytes).ok());
  }
}

inline void check_request(ApiResult<ApiRequest> (*parse)(std::string_view, const ApiContext&),
                          const std::uint8_t* data, std::size_t size) {
  const std::string_view body(reinterpret_cast<const char*>(data), size);
  ApiResult<ApiRequest> result = parse(body, {.model = "m", .vocab_size = 100, .max_choices = 4});
  if (const ApiError* error = std::get_if<ApiError>(&result)) {
    BALEEN_CHECK(error->status == 400 || error->status == 404);
    BALEEN_CHECK(!error->message.empty());
    for (const Protocol* api : {&kChatCompletionsApi, &kMessagesApi}) {
      BALEEN_CHECK(parse_python_json(error_body(*api, *error)).ok());
    }
    return;
  }
  ApiRequest& request = std::get<ApiRequest>(result);
  BALEEN_CHECK(request.sampling.validate(100).empty());
  if (request.protocol == &kCompletionsApi) {
    BALEEN_CHECK(!request.prompts.empty());
  } else {
    BALEEN_CHECK(render_prompt(request.messages, {.thinking_mode = request.thinking_mode}).ok());
  }
  check_reply(std::move(request), body, data[size / 2] % 64);
}

}  // namespace baleen
