#include "server/conversation_routes.h"

#include <fmt/format.h>

#include <utility>
#include <variant>

namespace baleen {
namespace {

constexpr std::string_view kPath = "/conversations";

/// The version that the headers name; a failure for what is none.
ApiResult<ExpectedVersion> expected_version(const HttpRequest& request) {
  using Kind = ExpectedVersion::Kind;
  const std::string_view match = request.header("if-match"), none_match = request.header("if-none-match");
  if (match.empty() && none_match.empty()) return ExpectedVersion{};
  if (match.empty() && none_match == "*") return ExpectedVersion{.kind = Kind::kAbsent};
  if (none_match.empty() && match.size() > 2 && match.starts_with('"') && match.ends_with('"'))
    return ExpectedVersion{.kind = Kind::kThis, .version = std::string(match.substr(1, match.size() - 2))};
  return ApiError{.code = "bad_version",
                  .message = "expected one version in quotation marks in If-Match, or If-None-Match: *"};
}

HttpResponse versioned(std::string body, std::string_view version) {
  return {.headers = {{"ETag", fmt::format("\"{}\"", version)}, {"Cache-Control", "no-store"}},
          .body = std::move(body)};
}

}  // namespace

ApiResult<HttpResponse> conversation_answer(ConversationStore& store, std::string_view key,
                                            const HttpRequest& request, std::string_view body) {
  if (request.path == kPath)
    return HttpResponse{.headers = {{"Cache-Control", "no-store"}}, .body = store.list(key)};
  const std::string_view id = std::string_view(request.path).substr(kPath.size() + 1);
  if (request.method != "PUT" && request.method != "DELETE") {
    auto kept = store.read(key, id);
    if (auto* error = std::get_if<ApiError>(&kept)) return std::move(*error);
    auto& [text, version] = std::get<KeptConversation>(kept);
    return versioned(std::move(text), version);
  }
  auto expected = expected_version(request);
  if (auto* error = std::get_if<ApiError>(&expected)) return std::move(*error);
  const auto& version = std::get<ExpectedVersion>(expected);
  if (request.method == "DELETE") {
    if (auto error = store.erase(key, id, version)) return *std::move(error);
    return HttpResponse{.body = fmt::format(R"({{"id":"{}","deleted":true}})", id)};
  }
  auto written = store.write(key, id, body, version);
  if (auto* error = std::get_if<ApiError>(&written)) return std::move(*error);
  const auto& now = std::get<std::string>(written);
  return versioned(fmt::format(R"({{"id":"{}","version":"{}"}})", id, now), now);
}

}  // namespace baleen
