/// Who may use the server: by the name it is called with, the web page that asks, and the key.
///
/// A web page can send requests to servers on its reader's machine, and with a DNS name that it controls (DNS
/// rebinding) it can even read the answers. So a server on the loopback that wants no key answers only to
/// loopback names, and no server answers pages of an origin that it was not given.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "http/http_server.h"
#include "protocols/protocol.h"
#include "server/api_keys.h"

namespace baleen {

struct AccessOptions {
  ApiKeys keys;                            ///< for all paths but the page, /health and /ready
  std::vector<std::string> allowed_hosts;  ///< names besides the loopback's; without any, see `Access`
  std::vector<std::string> cors_origins;   ///< "https://chat.example" whose pages may ask; "*": all
};

class Access {
 public:
  using Headers = std::vector<std::pair<std::string, std::string>>;

  /// `listening_host` as in `HttpServerOptions`. Hosts are checked when names are given, and where the server
  /// listens on the loopback without keys. Throws `Error` for origins that are none, and for "*" without
  /// keys: then every page that anyone opens could use the server.
  Access(AccessOptions options, std::string_view listening_host);

  [[nodiscard]] bool keys_required() const { return options_.keys.required(); }
  /// Why neither the name nor the page that a request comes with may ask.
  [[nodiscard]] std::optional<ApiError> refuse_source(const HttpRequest& head) const;
  [[nodiscard]] std::optional<ApiError> refuse_key(const HttpRequest& head) const;

  /// What a browser must see in the answer to a page of an allowed origin; empty for all others.
  [[nodiscard]] Headers cors_headers(const HttpRequest& head) const;
  /// The answer to OPTIONS, for a page (preflight) or a curious client. `methods` are those of the path.
  [[nodiscard]] HttpResponse answer_options(const HttpRequest& head, std::string_view methods) const;

 private:
  [[nodiscard]] bool is_allowed_host(std::string_view host) const;
  [[nodiscard]] bool is_allowed_origin(std::string_view origin) const;

  AccessOptions options_;
  bool checks_hosts_;
};

/// localhost, 127.0.0.0/8 and [::1], with any port.
[[nodiscard]] bool is_loopback_name(std::string_view host);

/// An exchange whose answer has these headers too.
[[nodiscard]] std::shared_ptr<Exchange> with_headers(std::shared_ptr<Exchange> exchange,
                                                     Access::Headers headers);

}  // namespace baleen
