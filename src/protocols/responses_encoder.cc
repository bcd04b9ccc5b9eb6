#include <fmt/format.h>

#include <optional>
#include <utility>

#include "protocols/encoders.h"
#include "protocols/output_item.h"
#include "protocols/sealed_text.h"
#include "protocols/tool_groups.h"

namespace baleen {
namespace {

ReplyJson responses_usage_json(const Usage& usage) {
  return {{"input_tokens", usage.prompt_tokens},
          {"input_tokens_details", {{"cached_tokens", usage.cached_tokens}, {"cache_write_tokens", 0}}},
          {"output_tokens", usage.reply_tokens},
          {"output_tokens_details", {{"reasoning_tokens", usage.reasoning_tokens}}},
          {"total_tokens", usage.prompt_tokens + usage.reply_tokens}};
}

/// A response before its output: what the request said, and the defaults of what it did not say.
ReplyJson response_frame(const ApiRequest& request, const ReplyIdentity& identity) {
  ReplyJson json = {{"id", fmt::format("resp_{}", identity.id)},
                    {"object", "response"},
                    {"created_at", identity.created_unix_seconds},
                    {"status", "in_progress"},
                    {"background", false},
                    {"error", nullptr},
                    {"incomplete_details", nullptr},
                    {"instructions", nullptr},
                    {"max_output_tokens", nullptr},
                    {"metadata", ReplyJson::object()},
                    {"model", identity.model},
                    {"output", ReplyJson::array()},
                    {"parallel_tool_calls", true},
                    {"previous_response_id", nullptr},
                    {"reasoning", {{"effort", nullptr}, {"summary", nullptr}}},
                    {"service_tier", "default"},
                    {"store", false},
                    {"temperature", nullptr},
                    {"text", ReplyJson::object()},
                    {"tool_choice", "auto"},
                    {"tools", ReplyJson::array()},
                    {"top_logprobs", 0},
                    {"top_p", nullptr},
                    {"truncation", "disabled"},
                    {"usage", nullptr},
                    {"user", nullptr}};
  for (const auto& [name, value] : request.repeated) json[name] = to_reply_json(value);
  json["store"] = request.keeping.store;
  if (!json["text"].contains("format")) json["text"]["format"] = {{"type", "text"}};
  return json;
}

class ResponsesEncoder final : public ReplyEncoder {
 public:
  ResponsesEncoder(const ApiRequest& request, const ReplyIdentity& identity)
      : streams_(request.stream),
        show_reasoning_(request.show_reasoning),
        seals_(request.keeping.seal_reasoning),
        summarises_(request.keeping.summarise_reasoning),
        client_key_(request.client_key),
        grouped_tools_(request.grouped_tools),
        identity_(identity),
        response_(response_frame(request, identity)) {}

  std::string begin() override {
    emit("response.created", {{"response", response_}});
    emit("response.in_progress", {{"response", response_}});
    return take_events();
  }

  std::string parts(int /*choice*/, const std::vector<ReplyPart>& parts,
                    const std::vector<TokenLogprobs>& logprobs) override {
    for (const TokenLogprobs& token : logprobs) waiting_logprobs_.push_back(logprob_json(token));
    for (const ReplyPart& part : parts) take(part);
    return take_events();
  }

  std::string choice_finished(int /*choice*/, ReplyEnd end, const std::string& /*stop_string*/) override {
    // An unfinished reply need not end inside an item: it may be cut right after one.
    const std::string_view reason = finish_reason(end);
    complete_ = reason == "stop" || reason == "tool_calls";
    if (!complete_) incomplete_reason_ = reason == "length" ? "max_output_tokens" : reason;
    close(complete_ ? "completed" : "incomplete");
    return take_events();
  }

  std::string finish(const Usage& usage) override {
    response_["status"] = complete_ ? "completed" : "incomplete";
    if (!complete_) response_["incomplete_details"] = {{"reason", incomplete_reason_}};
    if (num_dropped_calls_ > 0) response_["finish_details"] = finish_details(num_dropped_calls_);
    response_["usage"] = responses_usage_json(usage);
    if (!streams_) return json_text(response_);
    emit(complete_ ? "response.completed" : "response.incomplete", {{"response", response_}});
    return take_events();
  }

  std::string record() const override { return json_text(response_); }

  std::string failed(const ApiError& error) override {
    if (!streams_) return error_body(kResponsesApi, error);
    response_["status"] = "failed";
    response_["error"] = {{"code", "server_error"}, {"message", error.message}};
    emit("response.failed", {{"response", response_}});
    return take_events();
  }

 private:
  void take(const ReplyPart& part) {
    switch (part.kind) {
      case ReplyPart::Kind::kReasoning:
        if (show_reasoning_) grow(OutputItem::Kind::kReasoning, part.text);
        break;
      case ReplyPart::Kind::kContent:
        grow(OutputItem::Kind::kMessage, part.text);
        break;
      case ReplyPart::Kind::kCallBegin:
        close("completed");
        item_ = OutputItem{.kind = OutputItem::Kind::kCall,
                           .id = item_id("fc"),
                           .call_id = tool_call_id(kResponsesApi, identity_, 0, part.call_idx),
                           .name = part.text};
        if (const GroupedTool* tool = find_grouped(grouped_tools_, part.text)) {
          item_->name = tool->name;
          item_->name_space = tool->group;
        }
        emit("response.output_item.added", {{"output_index", index()}, {"item", item_->json("in_progress")}});
        break;
      case ReplyPart::Kind::kCallArguments:
        if (item_ && item_->kind == OutputItem::Kind::kCall) grow(OutputItem::Kind::kCall, part.text);
        break;
      case ReplyPart::Kind::kCallEnd:
        if (!item_ || item_->kind != OutputItem::Kind::kCall) break;
        item_->is_whole_call = true;
        close("completed");
        break;
      case ReplyPart::Kind::kCallDropped:
        ++num_dropped_calls_;
        break;
    }
  }

  void grow(OutputItem::Kind kind, const std::string& text) {
    if (text.empty()) return;
    if (!item_ || item_->kind != kind) open(kind);
    item_->text += text;
    ReplyJson fields = place();
    fields["delta"] = text;
    if (kind == OutputItem::Kind::kMessage) {
      for (const ReplyJson& token : waiting_logprobs_) item_->logprobs.push_back(token);
      fields["logprobs"] = std::exchange(waiting_logprobs_, ReplyJson::array());
    }
    emit(fmt::format("response.{}.delta", item_->event_name()), std::move(fields));
  }

  /// Of reasoning or a message, with the one part that its content has.
  void open(OutputItem::Kind kind) {
    close("completed");
    const bool is_reasoning = kind == OutputItem::Kind::kReasoning;
    item_ = OutputItem{
        .kind = kind, .id = item_id(is_reasoning ? "rs" : "msg"), .is_summary = is_reasoning && summarises_};
    emit("response.output_item.added", {{"output_index", index()}, {"item", item_->json("in_progress")}});
    ReplyJson fields = place();
    fields["part"] = item_->part("", ReplyJson::array());
    emit(fmt::format("response.{}.added", item_->part_event_name()), std::move(fields));
  }

  /// A call that was cut has no events of its end, which clients take for the order to make it; the
  /// response's output shows it as incomplete.
  void close(std::string_view status) {
    if (!item_) return;
    const bool is_call = item_->kind == OutputItem::Kind::kCall;
    if (is_call && !item_->is_whole_call) {
      response_["output"].push_back(item_->json("incomplete"));
      return item_.reset();
    }
    ReplyJson fields = place();
    if (is_call) fields["name"] = item_->name;
    fields[is_call ? "arguments" : "text"] = item_->text;
    if (item_->kind == OutputItem::Kind::kMessage) {
      for (const ReplyJson& token : waiting_logprobs_) item_->logprobs.push_back(token);
      waiting_logprobs_ = ReplyJson::array();
      fields["logprobs"] = item_->logprobs;
    }
    emit(fmt::format("response.{}.done", item_->event_name()), std::move(fields));
    if (!is_call) {
      fields = place();
      fields["part"] = item_->part(item_->text, item_->logprobs);
      emit(fmt::format("response.{}.done", item_->part_event_name()), std::move(fields));
    }
    if (item_->kind == OutputItem::Kind::kReasoning && seals_)
      item_->sealed = seal_text(item_->text, client_key_);
    ReplyJson done = item_->json(status);
    emit("response.output_item.done", {{"output_index", index()}, {"item", done}});
    response_["output"].push_back(std::move(done));
    item_.reset();
  }

  [[nodiscard]] std::size_t index() const { return response_["output"].size(); }
  [[nodiscard]] std::string item_id(std::string_view prefix) const {
    return fmt::format("{}_{}_{}", prefix, identity_.id, index());
  }

  /// Where an event about the open item happens.
  [[nodiscard]] ReplyJson place() const {
    ReplyJson fields = {{"item_id", item_->id}, {"output_index", index()}};
    if (item_->kind != OutputItem::Kind::kCall) fields[item_->part_index_name()] = 0;
    return fields;
  }

  void emit(std::string_view type, ReplyJson fields) {
    if (!streams_) return;
    ReplyJson event = {{"type", type}, {"sequence_number", sequence_number_++}};
    event.update(fields);
    events_ += typed_event(event);
  }

  std::string take_events() { return std::exchange(events_, {}); }

  bool streams_, show_reasoning_, seals_, summarises_;
  std::string client_key_;
  std::vector<GroupedTool> grouped_tools_;
  ReplyIdentity identity_;
  ReplyJson response_;  ///< its output holds the closed items
  std::optional<OutputItem> item_;
  ReplyJson waiting_logprobs_ = ReplyJson::array();  ///< text may lag behind its tokens
  std::size_t num_dropped_calls_ = 0;
  bool complete_ = false;
  std::string_view incomplete_reason_ = "max_output_tokens";
  int sequence_number_ = 0;
  std::string events_;
};

}  // namespace

EncoderPointer make_responses_encoder(const ApiRequest& request, const ReplyIdentity& identity,
                                      const Usage& /*at_start*/) {
  return std::make_unique<ResponsesEncoder>(request, identity);
}

}  // namespace baleen
