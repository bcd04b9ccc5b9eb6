#include "server/token_routes.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "base/json.h"

namespace baleen {
namespace {

using Json = nlohmann::ordered_json;

ApiError wrong(std::string param, std::string message) {
  return {.status = 400, .param = std::move(param), .message = std::move(message)};
}

/// The body as an object; discarded when it is none.
Json parse_object(std::string_view body) {
  Result<Json> json = parse_ordered_json(body);
  return json && json.value().is_object() ? std::move(json).value() : Json(Json::value_t::discarded);
}

}  // namespace

std::string model_json(const ServedModel& model) {
  const Json entry = {{"id", model.name},
                      {"object", "model"},
                      {"created", model.created_unix_seconds},
                      {"owned_by", "baleen"},
                      {"max_model_len", model.limits.context_tokens},
                      {"type", "model"},
                      {"display_name", model.name}};
  return entry.dump();
}

ApiResult<std::string> tokenize_reply(std::string_view body, const ServedModel& model,
                                      const RequestPreparer& preparer, const ApiContext& context) {
  const Json json = parse_object(body);
  if (json.is_discarded()) return wrong("", "the body is not a JSON object");
  std::vector<TokenId> tokens;
  if (json.contains("messages")) {
    auto request = parse_chat_completions(body, context);
    if (auto* error = std::get_if<ApiError>(&request)) return std::move(*error);
    auto encoded = preparer.conversation_tokens(std::get<ApiRequest>(request));
    if (auto* error = std::get_if<ApiError>(&encoded)) return std::move(*error);
    tokens = std::get<std::vector<TokenId>>(std::move(encoded));
  } else {
    if (!json.contains("prompt") || !json["prompt"].is_string()) {
      return wrong("prompt", "prompt: a string is expected (or messages, as for chat completions)");
    }
    auto encoded = model.tokenizer->encode(json["prompt"].get<std::string>());
    if (!encoded) return wrong("prompt", encoded.error());
    tokens = std::move(encoded).value();
    const auto special = json.find("add_special_tokens");
    if (special != json.end() && special->is_boolean() && special->get<bool>())
      tokens.insert(tokens.begin(), model.bos);
  }
  // Millions of ids are no JSON value first: its destructor needs memory as large as the list, and ends the
  // program where there is none.
  return fmt::format(R"({{"count":{},"max_model_len":{},"tokens":[{}]}})", tokens.size(),
                     model.limits.context_tokens, fmt::join(tokens, ","));
}

ApiResult<std::string> detokenize_reply(std::string_view body, const ServedModel& model) {
  const Json json = parse_object(body);
  if (json.is_discarded()) return wrong("", "the body is not a JSON object");
  if (!json.contains("tokens") || !json["tokens"].is_array()) {
    return wrong("tokens", "tokens: an array of token ids is expected");
  }
  std::vector<TokenId> tokens;
  for (const Json& token : json["tokens"]) {
    const bool fits = token.is_number_integer() && token >= 0 && token < model.limits.vocab_size;
    if (!fits) {
      return wrong(fmt::format("tokens[{}]", tokens.size()),
                   fmt::format("tokens[{}]: {} is no token id, those are 0 to {}", tokens.size(),
                               token.dump(), model.limits.vocab_size - 1));
    }
    tokens.push_back(token.get<TokenId>());
  }
  const Json reply = {{"prompt", model.tokenizer->decode(tokens)}};
  return reply.dump();
}

}  // namespace baleen
