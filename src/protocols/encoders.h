/// One encoder for each protocol, for its row.
#pragma once

#include <memory>

#include "protocols/protocol.h"

namespace baleen {

using EncoderPointer = std::unique_ptr<ReplyEncoder>;

[[nodiscard]] EncoderPointer make_chat_completions_encoder(const ApiRequest& request,
                                                           const ReplyIdentity& identity,
                                                           const Usage& at_start);
[[nodiscard]] EncoderPointer make_completions_encoder(const ApiRequest& request,
                                                      const ReplyIdentity& identity, const Usage& at_start);
[[nodiscard]] EncoderPointer make_responses_encoder(const ApiRequest& request, const ReplyIdentity& identity,
                                                    const Usage& at_start);
[[nodiscard]] EncoderPointer make_messages_encoder(const ApiRequest& request, const ReplyIdentity& identity,
                                                   const Usage& at_start);

}  // namespace baleen
