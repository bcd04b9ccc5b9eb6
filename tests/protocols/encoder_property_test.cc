// For any reply, cut in any way: streams are valid events of valid JSON in UTF-8, and what a client
// accumulates from them is the body that the same reply has when it does not stream.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <map>
#include <nlohmann/json.hpp>

#include "base/utf8.h"
#include "sample_reply.h"

namespace baleen {
namespace {

using Json = nlohmann::json;

/// Mostly text, sometimes bytes that are none.
rc::Gen<std::string> any_text() {
  return rc::gen::weightedOneOf<std::string>(
      {{8, rc::gen::container<std::string>(rc::gen::elementOf(std::string("ab \"\\\n{}")))},
       {2, rc::gen::element<std::string>("é", "€", "😀", "\xE2\x82", "\xFF", std::string("\0", 1))}});
}

TokenText any_token() {
  return {*any_text(), *rc::gen::element(0.0, -0.5, -1e300, -std::numeric_limits<double>::infinity())};
}

/// A reply as ReplyReader would give it: reasoning and content in turns, then calls with arguments that are
/// objects.
std::vector<Piece> any_reply() {
  Parts parts;
  for (int i = *rc::gen::inRange(0, 5); i > 0; --i) {
    parts.push_back(*rc::gen::arbitrary<bool>() ? reasoning(*any_text()) : content(*any_text()));
  }
  const auto num_calls = *rc::gen::inRange<std::size_t>(0, 4);
  for (std::size_t call = 0; call < num_calls; ++call) {
    parts.push_back(call_begin(call, *rc::gen::element<std::string>("f", "get_weather")));
    const std::string arguments =
        *rc::gen::element<std::string>("{}", R"({"a": "\u00e9", "b": [1, 2.5, null]})", R"({"x": {"y": 3}})");
    const auto cut = *rc::gen::inRange<std::size_t>(0, arguments.size());
    if (cut > 0) parts.push_back(call_arguments(call, arguments.substr(0, cut)));
    parts.push_back(call_arguments(call, arguments.substr(cut)));
    parts.push_back(call_end(call));
  }
  std::vector<Piece> pieces(1);
  for (ReplyPart& part : parts) {
    if (*rc::gen::arbitrary<bool>()) pieces.emplace_back();
    pieces.back().parts.push_back(std::move(part));
    if (*rc::gen::arbitrary<bool>())
      pieces.back().logprobs.push_back({.token = any_token(), .top = {any_token(), any_token()}});
  }
  return pieces;
}

/// The events' data in order; checks their framing.
std::vector<Json> events_of(const std::string& stream, bool typed) {
  RC_ASSERT(!find_invalid_utf8(stream));
  std::vector<Json> events;
  std::size_t at = 0;
  while (at < stream.size()) {
    const std::size_t end = stream.find("\n\n", at);
    RC_ASSERT(end != std::string::npos);
    std::string event = stream.substr(at, end - at);
    at = end + 2;
    std::string type;
    if (typed) {
      RC_ASSERT(event.starts_with("event: "));
      const std::size_t line = event.find('\n');
      type = event.substr(7, line - 7);
      event.erase(0, line + 1);
    }
    RC_ASSERT(event.starts_with("data: "));
    RC_ASSERT(event.find('\n') == std::string::npos);
    if (event == "data: [DONE]") {
      RC_ASSERT(at == stream.size());
      break;
    }
    events.push_back(Json::parse(event.substr(6)));
    if (typed) RC_ASSERT(events.back()["type"] == type);
  }
  return events;
}

void append(Json& list, const Json& more) {
  for (const Json& element : more) list.push_back(element);
}

/// What the official client makes of chat completion chunks.
Json accumulate_chat(const std::vector<Json>& events) {
  Json message = {{"role", "assistant"}, {"content", ""}, {"refusal", nullptr}};
  Json logprobs = Json::array(), reason, usage;
  for (const Json& event : events) {
    if (event["choices"].empty()) {
      usage = event["usage"];
      continue;
    }
    const Json& choice = event["choices"][0];
    const Json& delta = choice["delta"];
    if (!choice["logprobs"].is_null()) append(logprobs, choice["logprobs"]["content"]);
    if (!choice["finish_reason"].is_null()) reason = choice["finish_reason"];
    for (const char* name : {"content", "reasoning_content"}) {
      if (delta.contains(name)) message[name] = message.value(name, "") + delta[name].get<std::string>();
    }
    for (const Json& call : delta.value("tool_calls", Json::array())) {
      Json& calls = message["tool_calls"];
      const auto idx = call["index"].get<std::size_t>();
      if (call.contains("id")) {
        RC_ASSERT(idx == calls.size());
        calls.push_back(call);
        calls.back().erase("index");
      } else {
        std::string& arguments = calls[idx]["function"]["arguments"].get_ref<std::string&>();
        arguments += call["function"]["arguments"].get<std::string>();
      }
    }
  }
  if (message["content"] == "" && message.contains("tool_calls")) message["content"] = nullptr;
  return {{"message", message},
          {"logprobs", {{"content", logprobs}, {"refusal", nullptr}}},
          {"finish_reason", reason},
          {"index", 0},
          {"usage", usage}};
}

ReplyEnd any_reason() {
  return *rc::gen::element(ReplyEnd::kStopToken, ReplyEnd::kStopString, ReplyEnd::kLength,
                           ReplyEnd::kToolCalls);
}

/// Invalid bytes become U+FFFD in each event, so a character cut across events is lost in a stream, where a
/// body would have it whole. Readers of replies never cut characters; here the same is done to the generated
/// text.
std::vector<Piece> with_whole_characters(std::vector<Piece> pieces) {
  for (Piece& piece : pieces) {
    for (ReplyPart& part : piece.parts) {
      std::string text;
      const std::size_t used = append_as_utf8(part.text, text);
      if (used < part.text.size()) text += kReplacementCharacter;
      part.text = text;
    }
  }
  return pieces;
}

TEST(EncoderProperty, ChatStreamIsTheBody) {
  EXPECT_TRUE(rc::check([] {
    const std::vector<Piece> pieces = with_whole_characters(any_reply());
    const ReplyEnd reason = any_reason();
    ApiRequest request;
    request.logprobs = true;
    Json body = Json::parse(encoded(request, pieces, reason));
    request.stream = request.include_usage = true;
    const Json sum = accumulate_chat(events_of(encoded(request, pieces, reason), false));
    body["choices"][0]["usage"] = body["usage"];
    // Nothing but empty reasoning came: a body leaves the field out.
    Json expected = sum;
    if (expected["message"].value("reasoning_content", "x").empty())
      expected["message"].erase("reasoning_content");
    RC_ASSERT(body["choices"][0] == expected);
  }));
}

TEST(EncoderProperty, CompletionsStreamIsTheBody) {
  EXPECT_TRUE(rc::check([] {
    std::vector<Piece> pieces = with_whole_characters(any_reply());
    for (Piece& piece : pieces)
      std::erase_if(piece.parts,
                    [](const ReplyPart& part) { return part.kind != ReplyPart::Kind::kContent; });
    ApiRequest request{.protocol = &kCompletionsApi, .prompts = {"p"}};
    request.logprobs = true;
    const Json body = Json::parse(encoded(request, pieces, ReplyEnd::kStopToken));
    request.stream = true;
    std::string text;
    Json logprobs = {{"tokens", Json::array()},
                     {"token_logprobs", Json::array()},
                     {"top_logprobs", Json::array()},
                     {"text_offset", Json::array()}};
    for (const Json& event : events_of(encoded(request, pieces, ReplyEnd::kStopToken), false)) {
      const Json& choice = event["choices"][0];
      text += choice["text"].get<std::string>();
      if (choice["logprobs"].is_null()) continue;
      for (auto& [name, list] : logprobs.items()) append(list, choice["logprobs"][name]);
    }
    RC_ASSERT(body["choices"][0]["text"] == text);
    RC_ASSERT(body["choices"][0]["logprobs"] == logprobs);
  }));
}

TEST(EncoderProperty, ResponsesStreamIsTheBody) {
  EXPECT_TRUE(rc::check([] {
    const std::vector<Piece> pieces = with_whole_characters(any_reply());
    const ReplyEnd reason = any_reason();
    ApiRequest request{.protocol = &kResponsesApi};
    request.logprobs = true;
    const Json body = Json::parse(encoded(request, pieces, reason));
    request.stream = true;
    const std::vector<Json> events = events_of(encoded(request, pieces, reason), true);
    Json output = Json::array(), no_parts = Json::array();
    for (std::size_t i = 0; i < events.size(); ++i) {
      const Json& event = events[i];
      const std::string type = event["type"];
      RC_ASSERT(event["sequence_number"] == i);
      if (type == "response.output_item.added") {
        RC_ASSERT(event["output_index"] == output.size());
        output.push_back(event["item"]);
      }
      if (!event.contains("output_index")) continue;
      Json& item = output.at(event["output_index"].get<std::size_t>());
      if (event.contains("item_id")) RC_ASSERT(event["item_id"] == item["id"]);
      if (type == "response.content_part.added") item["content"].push_back(event["part"]);
      if (type.ends_with("text.delta")) {
        Json& part = item["content"].at(event["content_index"].get<std::size_t>());
        part["text"] = part["text"].get<std::string>() + event["delta"].get<std::string>();
      }
      if (type.ends_with("text.done")) RC_ASSERT(item["content"][0]["text"] == event["text"]);
      if (type.ends_with("arguments.delta"))
        item["arguments"] = item["arguments"].get<std::string>() + event["delta"].get<std::string>();
      if (type.ends_with("arguments.done")) RC_ASSERT(item["arguments"] == event["arguments"]);
      if (type == "response.output_item.done") {
        for (Json& part : item.value("type", "") == "message" ? item["content"] : no_parts)
          part["logprobs"] = event["item"]["content"][0]["logprobs"];
        item["status"] = event["item"]["status"];
        RC_ASSERT(item == event["item"]);
      }
    }
    RC_ASSERT(events.back()["response"] == body);
    RC_ASSERT(body["output"] == output);
  }));
}

TEST(EncoderProperty, MessagesStreamIsTheBody) {
  EXPECT_TRUE(rc::check([] {
    const std::vector<Piece> pieces = with_whole_characters(any_reply());
    const ReplyEnd reason = any_reason();
    ApiRequest request{.protocol = &kMessagesApi};
    Json body = Json::parse(encoded(request, pieces, reason, "END"));
    request.stream = true;
    const std::vector<Json> events = events_of(encoded(request, pieces, reason, "END"), true);
    Json message = events.at(0)["message"];
    std::map<std::size_t, std::string> inputs;
    for (const Json& event : events) {
      const std::string type = event["type"];
      if (type == "content_block_start") {
        RC_ASSERT(event["index"] == message["content"].size());
        message["content"].push_back(event["content_block"]);
      }
      if (type == "content_block_delta") {
        Json& block = message["content"].at(event["index"].get<std::size_t>());
        const Json& delta = event["delta"];
        for (const char* name : {"text", "thinking", "signature"}) {
          if (delta.contains(name))
            block[name] = block[name].get<std::string>() + delta[name].get<std::string>();
        }
        if (delta.contains("partial_json"))
          inputs[event["index"]] += delta["partial_json"].get<std::string>();
      }
      if (type == "message_delta") {
        message.update(event["delta"]);
        message["usage"].update(event["usage"]);
      }
    }
    for (const auto& [index, input] : inputs) message["content"].at(index)["input"] = Json::parse(input);
    RC_ASSERT(events.back()["type"] == "message_stop");
    RC_ASSERT(message == body);
  }));
}

TEST(EncoderProperty, AnyPartsGiveValidText) {
  EXPECT_TRUE(rc::check([] {
    // Parts in no order at all, with bytes that are no text.
    std::vector<Piece> pieces(1);
    for (int i = *rc::gen::inRange(0, 12); i > 0; --i) {
      const auto kind = static_cast<ReplyPart::Kind>(*rc::gen::inRange(0, 5));
      pieces.back().parts.push_back({kind, *any_text(), *rc::gen::inRange<std::size_t>(0, 4)});
      if (*rc::gen::arbitrary<bool>()) pieces.push_back({{}, {{.token = any_token(), .top = {any_token()}}}});
    }
    for (const Protocol* api : {&kChatCompletionsApi, &kCompletionsApi, &kResponsesApi, &kMessagesApi}) {
      ApiRequest request{.protocol = api, .prompts = {"p"}};
      request.logprobs = true;
      const std::string body = encoded(request, pieces, any_reason(), *any_text());
      RC_ASSERT(!find_invalid_utf8(body));
      RC_ASSERT(Json::accept(body));
      request.stream = true;
      (void)events_of(encoded(request, pieces, any_reason(), *any_text()),
                      api == &kResponsesApi || api == &kMessagesApi);
    }
  }));
}

}  // namespace
}  // namespace baleen
