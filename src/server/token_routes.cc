#include "server/token_routes.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "protocols/request_fields.h"

namespace baleen {
namespace {

using Json = nlohmann::ordered_json;

ApiError wrong(std::string param, std::string message) {
  return {.status = 400, .param = std::move(param), .message = std::move(message)};
}

/// The body, which is an object; nothing when it is none. Linear in the body, however many members it has.
std::optional<PythonJson> parse_object(std::string_view body) {
  Result<PythonJson> json = parse_python_json(body);
  if (!json || json.value().as_object() == nullptr) return std::nullopt;
  return std::move(json).value();
}

/// Efforts by the names that clients know from other providers' lists of models.
Json reasoning_json(const PromptProfile& profile, bool thinks_by_default) {
  const PromptRules& rules = prompt_rules(profile);
  Json supported = Json::array({"none"}), mapping = Json::object(), numbers = Json::object();
  for (const std::string_view name : effort_names(profile)) {
    supported.push_back(name);
    if (const auto number = effort_number(profile, name)) numbers[name] = *number;
  }
  for (const RequestedEffort& row : rules.requested) {
    const std::string_view effort = requested_effort(profile, row.asked)->effort;
    mapping[row.asked] = effort.empty() ? "none" : effort;
  }
  Json reasoning = {{"mandatory", false},
                    {"default_enabled", thinks_by_default},
                    {"default_effort", api_default(profile)},
                    {"supported_efforts", std::move(supported)},
                    {"effort_mapping", std::move(mapping)}};
  if (rules.has_numbers()) {
    reasoning["effort_numbers"] = std::move(numbers);
    reasoning["effort_range"] = {kMinEffort, kMaxEffort};
  }
  return reasoning;
}

}  // namespace

std::string model_json(const ServedModel& model) {
  const PromptRules& rules = prompt_rules(model.prompt_profile);
  Json entry = {{"id", model.name},
                {"object", "model"},
                {"created", model.created_unix_seconds},
                {"owned_by", "baleen"},
                {"max_model_len", model.limits.context_tokens},
                {"type", "model"},
                {"display_name", model.name},
                {"prompt_profile", rules.name},
                {"reasoning", reasoning_json(model.prompt_profile, model.think_by_default)},
                {"recommended_sampling",
                 {{"temperature", rules.sampling.temperature},
                  {"top_p", rules.sampling.top_p},
                  {"agentic_top_p", rules.sampling.agentic_top_p}}}};
  // Replies are those of an approximation then.
  if (model.bounded_replay_tokens > 0) entry["bounded_replay"] = model.bounded_replay_tokens;
  return entry.dump();
}

ApiResult<std::string> tokenize_reply(std::string_view body, const ServedModel& model,
                                      const RequestPreparer& preparer, const ApiContext& context) {
  const std::optional<PythonJson> json = parse_object(body);
  if (!json) return wrong("", "the body is not a JSON object");
  FirstError refused;
  const RequestFields fields(*json, "", refused);
  std::vector<TokenId> tokens;
  if (fields.has("messages")) {
    auto request = parse_chat_completions(body, context);
    if (auto* error = std::get_if<ApiError>(&request)) return std::move(*error);
    auto encoded = preparer.conversation_tokens(std::get<ApiRequest>(request));
    if (auto* error = std::get_if<ApiError>(&encoded)) return std::move(*error);
    tokens = std::get<std::vector<TokenId>>(std::move(encoded));
  } else {
    const PythonJson* prompt = fields.find("prompt");
    if (prompt == nullptr || prompt->as_string() == nullptr) {
      return wrong("prompt", "prompt: a string is expected (or messages, as for chat completions)");
    }
    auto encoded = model.tokenizer->encode(*prompt->as_string());
    if (!encoded) return wrong("prompt", encoded.error());
    tokens = std::move(encoded).value();
    if (fields.flag("add_special_tokens").value_or(false)) tokens.insert(tokens.begin(), model.bos);
    if (refused) return *std::move(refused);
  }
  // Millions of ids are no JSON value first: its destructor needs memory as large as the list, and ends the
  // program where there is none.
  return fmt::format(R"({{"count":{},"max_model_len":{},"tokens":[{}]}})", tokens.size(),
                     model.limits.context_tokens, fmt::join(tokens, ","));
}

ApiResult<std::string> detokenize_reply(std::string_view body, const ServedModel& model) {
  const std::optional<PythonJson> json = parse_object(body);
  if (!json) return wrong("", "the body is not a JSON object");
  const PythonJson* list = json->find("tokens");
  if (list == nullptr || list->as_array() == nullptr) {
    return wrong("tokens", "tokens: an array of token ids is expected");
  }
  std::vector<TokenId> tokens;
  for (const PythonJson& token : *list->as_array()) {
    const std::optional<std::int64_t> id = RequestNotation::whole(token);
    if (!id || *id < 0 || *id >= model.limits.vocab_size) {
      return wrong(fmt::format("tokens[{}]", tokens.size()),
                   fmt::format("tokens[{}]: {} is no token id, those are 0 to {}", tokens.size(),
                               describe(&token), model.limits.vocab_size - 1));
    }
    tokens.push_back(static_cast<TokenId>(*id));
  }
  const Json reply = {{"prompt", model.tokenizer->decode(tokens)}};
  return reply.dump();
}

}  // namespace baleen
