#include "bench/server/completion.h"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>

namespace baleen {
namespace {

using Json = nlohmann::json;

std::string request_body(const LoadTarget& target, const std::string& prompt, int max_tokens) {
  Json body = {{"model", target.model},
               {"stream", true},
               {"stream_options", {{"include_usage", true}}},
               {"max_tokens", max_tokens}};
  if (target.chat) {
    body["messages"] = Json::array({{{"role", "user"}, {"content", prompt}}});
  } else {
    body["prompt"] = prompt;
  }
  return body.dump();
}

bool has_text(const Json& event) {
  const Json choices = event.value("choices", Json::array());
  if (!choices.is_array() || choices.empty()) return false;
  const Json& choice = choices[0];
  const auto is_text = [](const Json& holder, const char* key) {
    return holder.is_object() && holder.contains(key) && holder[key].is_string() && holder[key] != "";
  };
  const Json delta = choice.value("delta", Json());
  return is_text(choice, "text") || is_text(delta, "content") || is_text(delta, "reasoning_content");
}

}  // namespace

Completion::Completion(const LoadTarget& target, const std::string& prompt, int max_tokens)
    : client_(std::make_unique<StreamClient>(
          target.endpoint,
          http_request(target.chat ? "/v1/chat/completions" : "/v1/completions",
                       request_body(target, prompt, max_tokens)),
          [this](std::string_view data, Clock::time_point when) { on_data(data, when); })) {}

void Completion::on_data(std::string_view data, Clock::time_point when) {
  const double elapsed = seconds_between(client_->started(), when);
  if (data == "[DONE]") {
    done_ = true;
    if (!first_token_seconds_) first_token_seconds_ = elapsed;
    return;
  }
  const Json event = Json::parse(data, nullptr, false);
  if (!event.is_object()) {
    error_ = "an event that is no JSON object";
  } else if (event.contains("error")) {
    error_ = event["error"].dump();
  } else if (has_text(event)) {
    ++num_pieces_;
    if (!first_token_seconds_) first_token_seconds_ = elapsed;
    if (last_piece_) gaps_.push_back(seconds_between(*last_piece_, when));
    last_piece_ = when;
  }
  if (event.is_object() && event.contains("usage") && event["usage"].is_object()) {
    const Json& usage = event["usage"];
    usage_tokens_ = usage.value("completion_tokens", num_pieces_);
    prompt_tokens_ = usage.value("prompt_tokens", std::int64_t{0});
    const Json details = usage.value("prompt_tokens_details", Json::object());
    if (details.is_object()) cached_tokens_ = details.value("cached_tokens", std::int64_t{0});
  }
}

std::string Completion::why_bad() const {
  if (!error_.empty()) return error_;
  if (client_->status() == 0) return "the connection failed before an answer";
  if (client_->status() != 200) return fmt::format("status {}", client_->status());
  return "the stream ended without [DONE]";
}

void run_alone(Completion& completion, double seconds) {
  const std::array<StreamClient*, 1> clients{&completion.client()};
  drive(clients, Clock::now() + std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000)));
}

}  // namespace baleen
