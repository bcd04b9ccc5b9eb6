#include <fmt/format.h>

#include <array>
#include <utility>

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

constexpr std::size_t kMaxMessageBytes = 2000, kMaxParamBytes = 300;

/// Leaves out the middle of a text that is too long: its end often says what to do.
void bound(std::string& text, std::size_t max_bytes) {
  if (text.size() <= max_bytes) return;
  constexpr std::string_view kCut = " [...] ";
  const std::size_t half = (max_bytes - kCut.size()) / 2;
  text = fmt::format("{}{}{}", std::string_view(text).substr(0, half), kCut,
                     std::string_view(text).substr(text.size() - half));
}

std::string openai_body(const ApiError& error, std::string_view /*request_id*/) {
  return json_text({{"error", openai_error(error)}});
}

std::string openai_prompt_too_long(std::string_view prompt_field, std::int64_t prompt_tokens,
                                   std::int64_t reply_tokens, std::int64_t context_tokens) {
  return fmt::format(
      "This model's maximum context length is {} tokens. However, the {} of this request has {} tokens{}. "
      "Please reduce the length of the {}.",
      context_tokens, prompt_field, prompt_tokens,
      reply_tokens > 0 ? ", and the reply needs at least one" : "", prompt_field);
}

std::string anthropic_body(const ApiError& error, std::string_view request_id) {
  return json_text({{"type", "error"},
                    {"error", {{"type", anthropic_type(error.status)}, {"message", error.message}}},
                    {"request_id", request_id.empty() ? ReplyJson() : ReplyJson(request_id)}});
}

std::string anthropic_prompt_too_long(std::string_view /*prompt_field*/, std::int64_t prompt_tokens,
                                      std::int64_t reply_tokens, std::int64_t context_tokens) {
  return fmt::format("prompt is too long: {} tokens > {} maximum", prompt_tokens,
                     context_tokens - reply_tokens);
}

}  // namespace

constinit const ErrorShape kOpenAiErrors{.body = openai_body, .prompt_too_long = openai_prompt_too_long};
constinit const ErrorShape kAnthropicErrors{.body = anthropic_body,
                                            .prompt_too_long = anthropic_prompt_too_long};

ApiError prompt_too_long(const Protocol& protocol, std::string field, std::int64_t prompt_tokens,
                         std::int64_t reply_tokens, std::int64_t context_tokens) {
  return {.code = "context_length_exceeded",
          .param = std::move(field),
          .message = protocol.errors->prompt_too_long(protocol.prompt_field, prompt_tokens, reply_tokens,
                                                      context_tokens)};
}

std::string error_body(const Protocol& protocol, const ApiError& whole, std::string_view request_id) {
  // Sentences are made in many places from what clients sent: names of fields, patterns, paths through a
  // schema.
  ApiError error = whole;
  bound(error.message, kMaxMessageBytes);
  bound(error.param, kMaxParamBytes);
  return protocol.errors->body(error, request_id);
}

}  // namespace baleen
