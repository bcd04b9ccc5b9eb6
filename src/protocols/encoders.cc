#include "protocols/encoders.h"

#include <fmt/format.h>

namespace baleen {

std::string tool_call_id(Api api, const ReplyIdentity& identity, int choice, std::size_t call_idx) {
  return fmt::format("{}_{}_{}_{}", api == Api::kMessages ? "toolu" : "call", identity.id, choice, call_idx);
}

std::unique_ptr<ReplyEncoder> make_encoder(const ApiRequest& request, const ReplyIdentity& identity,
                                           const Usage& at_start) {
  switch (request.api) {
    case Api::kCompletions:
      return make_completions_encoder(request, identity);
    case Api::kResponses:
      return make_responses_encoder(request, identity);
    case Api::kMessages:
      return make_messages_encoder(request, identity, at_start);
    case Api::kChatCompletions:
      break;
  }
  return make_chat_completions_encoder(request, identity);
}

}  // namespace baleen
