#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "protocols/encoders.h"
#include "protocols/reply_json.h"

namespace baleen {
namespace {

/// The protocol wants thinking signed, and clients send the signature back. Nothing here depends on who wrote
/// the thinking, so all have the same: base64 of "baleen:unsigned".
constexpr std::string_view kSignature = "YmFsZWVuOnVuc2lnbmVk";

/// Cached tokens are not input tokens here.
ReplyJson messages_usage_json(const Usage& usage) {
  return {{"input_tokens", std::max<std::int64_t>(usage.prompt_tokens - usage.cached_tokens, 0)},
          {"cache_creation_input_tokens", 0},
          {"cache_read_input_tokens", usage.cached_tokens},
          {"output_tokens", usage.reply_tokens},
          {"output_tokens_details", {{"thinking_tokens", usage.reasoning_tokens}}},
          {"server_tool_use", nullptr}};
}

std::string_view stop_reason_name(ReplyEnd end) {
  switch (end) {
    case ReplyEnd::kStopToken:
      return "end_turn";
    case ReplyEnd::kStopString:
      return "stop_sequence";
    case ReplyEnd::kToolCalls:
      return "tool_use";
    case ReplyEnd::kRepetition:
      return "repetition";
    case ReplyEnd::kLength:
    case ReplyEnd::kCancelled:
    case ReplyEnd::kFailed:
      break;
  }
  return "max_tokens";
}

ReplyJson input_json(const std::string& arguments) {
  const Result<PythonJson> value = parse_python_json(arguments);
  if (!value || value.value().as_object() == nullptr) return ReplyJson::object();
  return to_reply_json(value.value());
}

ReplyJson empty_text() { return {{"type", "text"}, {"text", ""}}; }

class MessagesEncoder final : public ReplyEncoder {
 public:
  MessagesEncoder(const ApiRequest& request, const ReplyIdentity& identity, const Usage& at_start)
      : streams_(request.stream),
        show_thinking_(request.show_reasoning),
        identity_(identity),
        at_start_(at_start) {}

  std::string begin() override {
    emit({{"type", "message_start"}, {"message", message(at_start_)}});
    emit({{"type", "ping"}});
    return take_events();
  }

  std::string parts(int /*choice*/, const std::vector<ReplyPart>& parts,
                    const std::vector<TokenLogprobs>& /*logprobs*/) override {
    for (const ReplyPart& part : parts) take(part);
    return take_events();
  }

  std::string choice_finished(int /*choice*/, ReplyEnd end, const std::string& stop_string) override {
    // Clients expect a text that the stop string ended, if only an empty one.
    if (end == ReplyEnd::kStopString && block_ != Block::kText) open(Block::kText, empty_text());
    close();
    stop_reason_ = stop_reason_name(end);
    if (end == ReplyEnd::kStopString) stop_sequence_ = stop_string;
    return take_events();
  }

  std::string finish(const Usage& usage) override {
    if (!streams_) return json_text(message(usage));
    ReplyJson usage_fields = messages_usage_json(usage);
    ReplyJson delta = {{"stop_reason", stop_reason_},
                       {"stop_sequence", stop_sequence_},
                       {"stop_details", nullptr},
                       {"container", nullptr}};
    if (num_dropped_calls_ > 0) delta["finish_details"] = finish_details(num_dropped_calls_);
    emit({{"type", "message_delta"}, {"delta", std::move(delta)}, {"usage", std::move(usage_fields)}});
    emit({{"type", "message_stop"}});
    return take_events();
  }

  std::string keep_alive() const override { return typed_event({{"type", "ping"}}); }

  std::string failed(const ApiError& error) override {
    const std::string body = error_body(kMessagesApi, error, identity_.request_id);
    return streams_ ? fmt::format("event: error\ndata: {}\n\n", body) : body;
  }

 private:
  enum class Block : std::uint8_t { kNone, kThinking, kText, kToolUse };

  void take(const ReplyPart& part) {
    switch (part.kind) {
      case ReplyPart::Kind::kReasoning:
        if (part.text.empty()) break;
        if (block_ != Block::kThinking)
          open(Block::kThinking, {{"type", "thinking"}, {"thinking", ""}, {"signature", ""}});
        if (show_thinking_) grow({{"type", "thinking_delta"}, {"thinking", part.text}}, part.text);
        break;
      case ReplyPart::Kind::kContent:
        if (part.text.empty()) break;
        if (block_ != Block::kText) open(Block::kText, empty_text());
        grow({{"type", "text_delta"}, {"text", part.text}}, part.text);
        break;
      case ReplyPart::Kind::kCallBegin:
        close();
        call_ = {.id = tool_call_id(kMessagesApi, identity_, 0, part.call_idx), .name = part.text};
        break;
      case ReplyPart::Kind::kCallArguments:
        call_.arguments += part.text;
        break;
      case ReplyPart::Kind::kCallEnd:
        send_call();
        break;
      case ReplyPart::Kind::kCallDropped:
        ++num_dropped_calls_;
        break;
    }
  }

  /// A call goes out when it is whole: clients of this protocol complete the JSON of a block that was cut,
  /// and a block without its input has the input {}, so half a call would be made.
  void send_call() {
    open(Block::kToolUse,
         {{"type", "tool_use"}, {"id", call_.id}, {"name", call_.name}, {"input", ReplyJson::object()}});
    grow({{"type", "input_json_delta"}, {"partial_json", call_.arguments}}, call_.arguments);
    close();
    call_ = {};
  }

  void open(Block block, ReplyJson content_block) {
    close();
    block_ = block;
    emit({{"type", "content_block_start"}, {"index", num_blocks_}, {"content_block", content_block}});
    if (!streams_) content_.push_back(std::move(content_block));
  }

  void grow(ReplyJson delta, const std::string& text) {
    if (!streams_) text_ += text;
    emit({{"type", "content_block_delta"}, {"index", num_blocks_}, {"delta", std::move(delta)}});
  }

  void close() {
    const Block block = std::exchange(block_, Block::kNone);
    if (block == Block::kNone) return;
    if (block == Block::kThinking) {
      emit({{"type", "content_block_delta"},
            {"index", num_blocks_},
            {"delta", {{"type", "signature_delta"}, {"signature", kSignature}}}});
    }
    emit({{"type", "content_block_stop"}, {"index", num_blocks_}});
    ++num_blocks_;
    if (streams_) return;
    const std::string text = std::exchange(text_, {});
    ReplyJson& content_block = content_.back();
    if (block == Block::kText) content_block["text"] = text;
    if (block == Block::kToolUse) content_block["input"] = input_json(text);
    if (block == Block::kThinking) {
      content_block["thinking"] = text;
      content_block["signature"] = kSignature;
    }
  }

  [[nodiscard]] ReplyJson message(const Usage& usage) const {
    ReplyJson json = {{"id", fmt::format("msg_{}", identity_.id)},
                      {"type", "message"},
                      {"role", "assistant"},
                      {"model", identity_.model},
                      {"content", content_},
                      {"stop_reason", stop_reason_},
                      {"stop_sequence", stop_sequence_},
                      {"stop_details", nullptr},
                      {"container", nullptr},
                      {"usage", messages_usage_json(usage)}};
    if (num_dropped_calls_ > 0) json["finish_details"] = finish_details(num_dropped_calls_);
    return json;
  }

  void emit(const ReplyJson& event) {
    if (streams_) events_ += typed_event(event);
  }

  std::string take_events() { return std::exchange(events_, {}); }

  bool streams_, show_thinking_;
  ReplyIdentity identity_;
  Usage at_start_;
  Block block_ = Block::kNone;
  std::size_t num_blocks_ = 0;  ///< closed ones
  ToolCall call_;               ///< the one that is not whole yet
  std::size_t num_dropped_calls_ = 0;
  ReplyJson content_ = ReplyJson::array();  ///< blocks so far, where the body does not stream
  std::string text_;                        ///< text of the open block there
  ReplyJson stop_reason_ = nullptr, stop_sequence_ = nullptr;
  std::string events_;
};

}  // namespace

EncoderPointer make_messages_encoder(const ApiRequest& request, const ReplyIdentity& identity,
                                     const Usage& at_start) {
  return std::make_unique<MessagesEncoder>(request, identity, at_start);
}

}  // namespace baleen
