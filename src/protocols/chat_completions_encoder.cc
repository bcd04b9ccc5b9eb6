#include <utility>

#include "protocols/completion_envelope.h"
#include "protocols/encoders.h"

namespace baleen {
namespace {

class ChatCompletionsEncoder final : public ReplyEncoder {
 public:
  ChatCompletionsEncoder(const ApiRequest& request, const ReplyIdentity& identity)
      : envelope_(request, identity, "chatcmpl-",
                  request.stream ? "chat.completion.chunk" : "chat.completion"),
        identity_(identity),
        logprobs_(request.logprobs),
        show_reasoning_(request.show_reasoning),
        older_calls_(request.older_calls),
        choices_(static_cast<std::size_t>(request.num_choices)) {}

  std::string begin() override {
    std::string events;
    if (!envelope_.streams()) return events;
    for (std::size_t i = 0; i < choices_.size(); ++i) {
      events += chunk(static_cast<int>(i), {{"role", "assistant"}, {"content", ""}});
    }
    return events;
  }

  std::string parts(int choice_idx, const std::vector<ReplyPart>& parts,
                    const std::vector<TokenLogprobs>& logprobs) override {
    Choice& choice = choices_[static_cast<std::size_t>(choice_idx)];
    for (const TokenLogprobs& token : logprobs) choice.logprobs.push_back(logprob_json(token));
    std::string events;
    for (const ReplyPart& part : parts) {
      if (part.kind == ReplyPart::Kind::kReasoning && !show_reasoning_) continue;
      if (older_calls_ && part.call_idx > 0) continue;  // the older form holds one
      if (part.kind == ReplyPart::Kind::kCallDropped) ++choice.num_dropped_calls;
      if (!envelope_.streams()) {
        collect(choice_idx, choice, part);
      } else if (ReplyJson delta = delta_of(choice_idx, part); !delta.is_null()) {
        events += chunk(choice_idx, std::move(delta));
      }
    }
    return events;
  }

  std::string choice_finished(int choice_idx, ReplyEnd end, const std::string& /*stop_string*/) override {
    std::string_view word = finish_reason(end);
    if (older_calls_ && end == ReplyEnd::kToolCalls) word = "function_call";
    Choice& choice = choices_[static_cast<std::size_t>(choice_idx)];
    choice.finish_reason = word;
    choice.calls.resize(choice.num_whole_calls);  // half a call is of no use; what has streamed stays cut
    return envelope_.streams() ? chunk(choice_idx, ReplyJson::object(), word) : "";
  }

  std::string finish(const Usage& usage) override {
    if (envelope_.streams()) return envelope_.last_events(usage);
    ReplyJson choices = ReplyJson::array();
    for (Choice& choice : choices_) {
      choices.push_back({{"index", choices.size()},
                         {"message", message(choice)},
                         {"logprobs", take_logprobs(choice)},
                         {"finish_reason", choice.finish_reason}});
      if (choice.num_dropped_calls > 0)
        choices.back()["finish_details"] = finish_details(choice.num_dropped_calls);
    }
    return envelope_.body(std::move(choices), usage);
  }

  std::string progress(std::int64_t done, std::int64_t total) const override {
    return envelope_.progress(done, total);
  }

  std::string failed(const ApiError& error) override { return envelope_.failed(kChatCompletionsApi, error); }

 private:
  struct Choice {
    std::string reasoning, content;
    std::vector<ToolCall> calls;  ///< calls so far, where the body does not stream
    std::size_t num_whole_calls = 0;
    ReplyJson logprobs = ReplyJson::array();  ///< not sent yet: text may lag behind its tokens
    std::size_t num_dropped_calls = 0;
    std::string_view finish_reason = "length";
  };

  void collect(int choice_idx, Choice& choice, const ReplyPart& part) const {
    switch (part.kind) {
      case ReplyPart::Kind::kReasoning:
        choice.reasoning += part.text;
        break;
      case ReplyPart::Kind::kContent:
        choice.content += part.text;
        break;
      case ReplyPart::Kind::kCallBegin:
        choice.calls.push_back({.id = call_id(choice_idx, part), .name = part.text});
        break;
      case ReplyPart::Kind::kCallArguments:
        if (!choice.calls.empty()) choice.calls.back().arguments += part.text;
        break;
      case ReplyPart::Kind::kCallEnd:
        choice.num_whole_calls = choice.calls.size();
        break;
      case ReplyPart::Kind::kCallDropped:
        break;
    }
  }

  /// null for a part that changes nothing here.
  [[nodiscard]] ReplyJson delta_of(int choice_idx, const ReplyPart& part) const {
    const auto call_delta = [](ReplyJson call) {
      ReplyJson calls = ReplyJson::array();
      calls.push_back(std::move(call));
      return ReplyJson{{"tool_calls", std::move(calls)}};
    };
    switch (part.kind) {
      case ReplyPart::Kind::kReasoning:
        return {{"reasoning_content", part.text}};
      case ReplyPart::Kind::kContent:
        return {{"content", part.text}};
      case ReplyPart::Kind::kCallBegin:
        if (older_calls_) return {{"function_call", {{"name", part.text}, {"arguments", ""}}}};
        return call_delta({{"index", part.call_idx},
                           {"id", call_id(choice_idx, part)},
                           {"type", "function"},
                           {"function", {{"name", part.text}, {"arguments", ""}}}});
      case ReplyPart::Kind::kCallArguments:
        if (older_calls_) return {{"function_call", {{"arguments", part.text}}}};
        return call_delta({{"index", part.call_idx}, {"function", {{"arguments", part.text}}}});
      case ReplyPart::Kind::kCallEnd:
      case ReplyPart::Kind::kCallDropped:
        break;
    }
    return {};
  }

  [[nodiscard]] std::string call_id(int choice_idx, const ReplyPart& part) const {
    return tool_call_id(kChatCompletionsApi, identity_, choice_idx, part.call_idx);
  }

  std::string chunk(int choice_idx, ReplyJson delta, std::string_view reason = {}) {
    Choice& choice = choices_[static_cast<std::size_t>(choice_idx)];
    const bool has_logprobs = !choice.logprobs.empty();
    ReplyJson json = {{"index", choice_idx},
                      {"delta", std::move(delta)},
                      {"logprobs", has_logprobs ? take_logprobs(choice) : ReplyJson()},
                      {"finish_reason", reason.empty() ? ReplyJson() : ReplyJson(reason)}};
    if (!reason.empty() && choice.num_dropped_calls > 0)
      json["finish_details"] = finish_details(choice.num_dropped_calls);
    return envelope_.chunk(std::move(json));
  }

  ReplyJson take_logprobs(Choice& choice) const {
    if (!logprobs_) return {};
    return {{"content", std::exchange(choice.logprobs, ReplyJson::array())}, {"refusal", nullptr}};
  }

  [[nodiscard]] ReplyJson message(const Choice& choice) const {
    const bool only_calls = choice.content.empty() && !choice.calls.empty();
    ReplyJson json = {{"role", "assistant"},
                      {"content", only_calls ? ReplyJson() : ReplyJson(choice.content)},
                      {"refusal", nullptr}};
    if (!choice.reasoning.empty()) json["reasoning_content"] = choice.reasoning;
    for (const ToolCall& call : choice.calls) {
      if (older_calls_) {
        json["function_call"] = {{"name", call.name}, {"arguments", call.arguments}};
        continue;
      }
      json["tool_calls"].push_back({{"id", call.id},
                                    {"type", "function"},
                                    {"function", {{"name", call.name}, {"arguments", call.arguments}}}});
    }
    return json;
  }

  CompletionEnvelope envelope_;
  ReplyIdentity identity_;
  bool logprobs_, show_reasoning_;
  bool older_calls_;  ///< calls are written as `function_call`, one a reply
  std::vector<Choice> choices_;
};

}  // namespace

EncoderPointer make_chat_completions_encoder(const ApiRequest& request, const ReplyIdentity& identity,
                                             const Usage& /*at_start*/) {
  return std::make_unique<ChatCompletionsEncoder>(request, identity);
}

}  // namespace baleen
