#include <array>

#include "protocols/reply_json.h"

namespace baleen {
namespace {

/// Anthropic's names of errors by status.
std::string_view anthropic_type(int status) {
  struct Named {
    int status;
    std::string_view type;
  };
  static constexpr std::array<Named, 8> kTypes = {{{401, "authentication_error"},
                                                   {403, "permission_error"},
                                                   {404, "not_found_error"},
                                                   {413, "request_too_large"},
                                                   {429, "rate_limit_error"},
                                                   {503, "overloaded_error"},
                                                   {504, "timeout_error"},
                                                   {529, "overloaded_error"}}};
  for (const Named& named : kTypes) {
    if (named.status == status) return named.type;
  }
  return status >= 500 ? "api_error" : "invalid_request_error";
}

}  // namespace

std::string error_body(Api api, const ApiError& error, std::string_view request_id) {
  if (api != Api::kMessages) return json_text({{"error", openai_error(error)}});
  return json_text({{"type", "error"},
                    {"error", {{"type", anthropic_type(error.status)}, {"message", error.message}}},
                    {"request_id", request_id.empty() ? ReplyJson() : ReplyJson(request_id)}});
}

}  // namespace baleen
