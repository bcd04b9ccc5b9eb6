#include "server/access.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "http/header_names.h"

namespace baleen {
namespace {

constexpr std::string_view kAnyOrigin = "*";
constexpr std::string_view kPreflightSeconds = "600";

/// The name of a Host header, without port and final dot.
std::string_view name_of(std::string_view host) {
  if (host.starts_with('[')) return host.substr(0, host.find(']') + 1);
  host = host.substr(0, host.find(':'));
  if (host.ends_with('.')) host.remove_suffix(1);
  return host;
}

/// Four numbers up to 255, the first of them 127.
bool is_loopback_address(std::string_view name) {
  int num_parts = 0;
  while (true) {
    int part = -1;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), part);
    if (error != std::errc() || part < 0 || part > 255 || (num_parts == 0 && part != 127)) return false;
    name.remove_prefix(static_cast<std::size_t>(end - name.data()));
    if (++num_parts == 4) return name.empty();
    if (!name.starts_with('.')) return false;
    name.remove_prefix(1);
  }
}

/// What a preflight may ask for: names of headers. They are repeated in the answer.
bool is_list_of_headers(std::string_view text) {
  return std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == ',' || c == ' ';
  });
}

class ExchangeWithHeaders final : public Exchange {
 public:
  ExchangeWithHeaders(std::shared_ptr<Exchange> exchange, Access::Headers headers)
      : exchange_(std::move(exchange)), headers_(std::move(headers)) {}

  void respond(HttpResponse response) override {
    response.headers.insert(response.headers.end(), headers_.begin(), headers_.end());
    exchange_->respond(std::move(response));
  }
  void begin_events(Access::Headers headers) override {
    headers.insert(headers.end(), headers_.begin(), headers_.end());
    exchange_->begin_events(std::move(headers));
  }
  bool send(std::string bytes) override { return exchange_->send(std::move(bytes)); }
  void end() override { exchange_->end(); }
  void on_gone(std::function<void()> callback) override { exchange_->on_gone(std::move(callback)); }
  void do_not_await() override { exchange_->do_not_await(); }

 private:
  const std::shared_ptr<Exchange> exchange_;
  const Access::Headers headers_;
};

ApiError forbidden(std::string code, std::string message) {
  return {.status = 403, .type = "permission_error", .code = std::move(code), .message = std::move(message)};
}

}  // namespace

bool is_loopback_name(std::string_view host) {
  const std::string_view name = name_of(host);
  return same_header(name, "localhost") || name == "[::1]" || is_loopback_address(name);
}

std::shared_ptr<Exchange> with_headers(std::shared_ptr<Exchange> exchange, Access::Headers headers) {
  if (headers.empty()) return exchange;
  return std::make_shared<ExchangeWithHeaders>(std::move(exchange), std::move(headers));
}

Access::Access(AccessOptions options, std::string_view listening_host) : options_(std::move(options)) {
  const bool on_loopback = listening_host == "::1" || is_loopback_name(listening_host);
  checks_hosts_ = !options_.allowed_hosts.empty() || (on_loopback && !keys_required());
  for (const std::string& origin : options_.cors_origins) {
    if (origin == kAnyOrigin) {
      if (!keys_required()) {
        fail(
            "‹CORS origin› \"*\" without ‹API keys›: any page that anyone opens could use this server; name "
            "the origins, or ask for keys");
      }
    } else if (const std::size_t scheme = origin.find("://");
               scheme == std::string::npos || scheme == 0 || scheme + 3 == origin.size() ||
               origin.find_first_of("/ ", scheme + 3) != std::string::npos) {
      fail("‹CORS origin› \"{}\": expected a scheme and a host, as in https://chat.example:8443", origin);
    }
  }
}

bool Access::is_allowed_host(std::string_view host) const {
  // Browsers always name the host; HTTP/1.0 clients need not.
  if (!checks_hosts_ || host.empty() || is_loopback_name(host)) return true;
  return std::ranges::any_of(options_.allowed_hosts, [&](const std::string& allowed) {
    return same_header(name_of(allowed), name_of(host));
  });
}

bool Access::is_allowed_origin(std::string_view origin) const {
  return std::ranges::any_of(options_.cors_origins, [&](const std::string& allowed) {
    return allowed == kAnyOrigin || same_header(allowed, origin);
  });
}

std::optional<ApiError> Access::refuse_source(const HttpRequest& head) const {
  const std::string_view host = head.header("host");
  if (!is_allowed_host(host)) {
    return forbidden("host_not_allowed",
                     "this server is not known by the name that the request gives as its Host; start it with "
                     "‹allowed host› NAME, or ask it as localhost");
  }
  const std::string_view origin = head.header("origin");
  if (origin.empty() || is_allowed_origin(origin)) return std::nullopt;
  const std::size_t scheme = origin.find("://");
  if (scheme != std::string_view::npos && same_header(origin.substr(scheme + 3), host)) return std::nullopt;
  return forbidden(
      "origin_not_allowed",
      "pages of this origin may not use this server; start it with ‹CORS origin› ORIGIN to let them");
}

std::optional<ApiError> Access::refuse_key(const HttpRequest& head) const {
  if (options_.keys.admits(presented_key(head.header("authorization"), head.header("x-api-key"))))
    return std::nullopt;
  return ApiError{.status = 401,
                  .type = "authentication_error",
                  .code = "invalid_api_key",
                  .message = "a valid API key is needed: Authorization: Bearer KEY, or x-api-key: KEY"};
}

Access::Headers Access::cors_headers(const HttpRequest& head) const {
  const std::string_view origin = head.header("origin");
  if (origin.empty() || !is_allowed_origin(origin)) return {};
  return {{"Access-Control-Allow-Origin", std::string(origin)},
          {"Access-Control-Expose-Headers", "x-request-id, request-id, retry-after"},
          {"Vary", "Origin"}};
}

HttpResponse Access::answer_options(const HttpRequest& head, std::string_view methods) const {
  HttpResponse response{.status = 204, .headers = {{"Allow", std::string(methods)}}};
  Headers cors = cors_headers(head);
  if (cors.empty()) return response;
  const std::string_view asked = head.header("access-control-request-headers");
  cors.emplace_back("Access-Control-Allow-Methods", methods);
  cors.emplace_back("Access-Control-Allow-Headers", is_list_of_headers(asked) && !asked.empty()
                                                        ? asked
                                                        : "authorization, content-type, x-api-key");
  cors.emplace_back("Access-Control-Max-Age", kPreflightSeconds);
  response.headers.insert(response.headers.end(), cors.begin(), cors.end());
  return response;
}

}  // namespace baleen
