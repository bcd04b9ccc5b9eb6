/// `GET /conversations`, and `GET`, `PUT`, `DELETE /conversations/ID`: what the page keeps on the server.
#pragma once

#include <string_view>

#include "http/http_server.h"
#include "server/conversation_store.h"

namespace baleen {

/// Waits for the disk. `request`: its method, path and headers; the version that a client expects stands in
/// `If-Match: "VERSION"` or `If-None-Match: *`. Answers to GET and PUT of one conversation have its `ETag`.
[[nodiscard]] ApiResult<HttpResponse> conversation_answer(ConversationStore& store, std::string_view key,
                                                          const HttpRequest& request, std::string_view body);

}  // namespace baleen
