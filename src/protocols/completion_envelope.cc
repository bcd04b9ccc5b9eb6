#include "protocols/completion_envelope.h"

#include <fmt/format.h>

#include <algorithm>

namespace baleen {
namespace {

ReplyJson completions_usage_json(const Usage& usage) {
  return {{"prompt_tokens", usage.prompt_tokens},
          {"completion_tokens", usage.reply_tokens},
          {"total_tokens", usage.prompt_tokens + usage.reply_tokens},
          {"prompt_cache_hit_tokens", usage.cached_tokens},
          {"prompt_cache_miss_tokens", std::max<std::int64_t>(usage.prompt_tokens - usage.cached_tokens, 0)},
          {"prompt_tokens_details", {{"cached_tokens", usage.cached_tokens}}},
          {"completion_tokens_details",
           {{"reasoning_tokens", usage.reasoning_tokens},
            {"accepted_prediction_tokens", usage.accepted_tokens},
            {"rejected_prediction_tokens",
             std::max<std::int64_t>(usage.drafted_tokens - usage.accepted_tokens, 0)}}}};
}

}  // namespace

CompletionEnvelope::CompletionEnvelope(const ApiRequest& request, const ReplyIdentity& identity,
                                       std::string_view id_prefix, std::string_view object)
    : streams_(request.stream),
      include_usage_(request.include_usage),
      identity_(identity),
      id_(fmt::format("{}{}", id_prefix, identity.id)),
      object_(object) {}

ReplyJson CompletionEnvelope::with_choices(ReplyJson choices) const {
  return {{"id", id_},
          {"object", object_},
          {"created", identity_.created_unix_seconds},
          {"model", identity_.model},
          {"system_fingerprint", identity_.fingerprint},
          {"choices", std::move(choices)}};
}

std::string CompletionEnvelope::chunk(ReplyJson choice) const {
  ReplyJson choices = ReplyJson::array();
  choices.push_back(std::move(choice));
  ReplyJson json = with_choices(std::move(choices));
  if (include_usage_) json["usage"] = nullptr;
  return data_event(json);
}

std::string CompletionEnvelope::progress(std::int64_t done, std::int64_t total) const {
  ReplyJson json = with_choices(ReplyJson::array());
  json["progress"] = {{"prefilled_tokens", done}, {"prompt_tokens", total}};
  if (include_usage_) json["usage"] = nullptr;
  return data_event(json);
}

std::string CompletionEnvelope::last_events(const Usage& usage) const {
  std::string events;
  if (include_usage_) {
    ReplyJson json = with_choices(ReplyJson::array());
    json["usage"] = completions_usage_json(usage);
    events = data_event(json);
  }
  return events + "data: [DONE]\n\n";
}

std::string CompletionEnvelope::body(ReplyJson choices, const Usage& usage) const {
  ReplyJson json = with_choices(std::move(choices));
  json["usage"] = completions_usage_json(usage);
  return json_text(json);
}

std::string CompletionEnvelope::failed(const Protocol& protocol, const ApiError& error) const {
  if (!streams_) return error_body(protocol, error);
  return fmt::format("data: {}\n\ndata: [DONE]\n\n", error_body(protocol, error));
}

}  // namespace baleen
