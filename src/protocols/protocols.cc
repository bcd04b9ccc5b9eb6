#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "protocols/encoders.h"
#include "protocols/known_fields.h"

namespace baleen {

constinit const Protocol kChatCompletionsApi{.name = "chat_completions",
                                             .path = "/v1/chat/completions",
                                             .prompt_field = "messages",
                                             .call_id_prefix = "call",
                                             .known_fields = chat_completions_fields,
                                             .parse = parse_chat_completions,
                                             .make_encoder = make_chat_completions_encoder};

constinit const Protocol kCompletionsApi{.name = "completions",
                                         .path = "/v1/completions",
                                         .prompt_field = "prompt",
                                         .call_id_prefix = "call",
                                         .has_raw_prompt = true,
                                         .known_fields = completions_fields,
                                         .parse = parse_completions,
                                         .make_encoder = make_completions_encoder};

constinit const Protocol kResponsesApi{.name = "responses",
                                       .path = "/v1/responses",
                                       .prompt_field = "input",
                                       .call_id_prefix = "call",
                                       .known_fields = responses_fields,
                                       .parse = parse_responses,
                                       .make_encoder = make_responses_encoder};

constinit const Protocol kMessagesApi{.name = "messages",
                                      .path = "/v1/messages",
                                      .prompt_field = "messages",
                                      .call_id_prefix = "toolu",
                                      .known_fields = messages_fields,
                                      .parse = parse_messages,
                                      .make_encoder = make_messages_encoder,
                                      .errors = &kAnthropicErrors};

std::span<const Protocol* const> protocols() {
  static constexpr std::array kProtocols = {&kChatCompletionsApi, &kCompletionsApi, &kResponsesApi,
                                            &kMessagesApi};
  return kProtocols;
}

const Protocol& protocol_of(std::string_view path) {
  const auto found =
      std::ranges::find_if(protocols(), [path](const Protocol* one) { return path.starts_with(one->path); });
  return found == protocols().end() ? kChatCompletionsApi : **found;
}

std::string tool_call_id(const Protocol& protocol, const ReplyIdentity& identity, int choice,
                         std::size_t call_idx) {
  return fmt::format("{}_{}_{}_{}", protocol.call_id_prefix, identity.id, choice, call_idx);
}

std::unique_ptr<ReplyEncoder> make_encoder(const ApiRequest& request, const ReplyIdentity& identity,
                                           const Usage& at_start) {
  return request.protocol->make_encoder(request, identity, at_start);
}

}  // namespace baleen
