/// An exchange with its protocol, and with its id: in the headers of every answer (`x-request-id` as OpenAI
/// names it, `request-id` as Anthropic does), in the log, and in the bodies of Anthropic's errors.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "http/http_server.h"
#include "protocols/protocol.h"

namespace baleen {

/// The client's own id, from `x-request-id` or `request-id`, where it is 1 to 128 letters, digits or
/// ._:/+=@-; else `otherwise`.
[[nodiscard]] std::string request_id_of(const HttpRequest& request, std::string otherwise);

/// What a request is called from its socket to the end of its reply.
struct RequestLabel {
  std::string id;          ///< unique; with the protocol's prefix that of the reply
  std::string request_id;  ///< the client's own, else "req_" and `id`
};

/// Those of every answer to the request.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> request_id_headers(
    const std::string& request_id);

[[nodiscard]] std::shared_ptr<Exchange> labelled_exchange(std::shared_ptr<Exchange> exchange,
                                                          RequestLabel label, const Protocol& protocol);
/// Of an exchange made by `labelled_exchange`; empty for others.
[[nodiscard]] RequestLabel label_of(const Exchange& exchange);
/// Whose errors its client reads; chat completions' of an exchange that `labelled_exchange` did not make.
[[nodiscard]] const Protocol& protocol_of(const Exchange& exchange);
/// What the server passed over of a request.
inline constexpr std::string_view kIgnoredHeader = "x-baleen-ignored";
/// Schemas that the reply is not wholly held to, each with the keywords that are not.
inline constexpr std::string_view kUnenforcedHeader = "x-baleen-unenforced";
/// Names something in a header of the answer; no header for no names. Before the answer begins.
void name_in_header(Exchange& exchange, std::string_view header, const std::vector<std::string>& names);

}  // namespace baleen
