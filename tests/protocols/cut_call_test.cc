// A reply that is cut anywhere, in any protocol, streamed or not: a call reaches the client whole, or in a
// form that no client can make, or not at all; and markup never reaches it.
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "chat/reply_reader.h"
#include "chat/special_strings.h"
#include "sample_reply.h"

namespace baleen {
namespace {

using Json = nlohmann::json;

struct SentCall {
  std::string name, arguments;
  bool is_called_whole = true;  ///< as far as the protocol says so: its item is not incomplete
  bool operator==(const SentCall&) const = default;
};

/// What a client knows when the reply is over.
struct Sent {
  std::vector<SentCall> calls;
  std::string reason;
  std::string bytes;
};

std::string parameter(const std::string& key, bool is_string, const std::string& value) {
  return "<｜DSML｜parameter name=\"" + key + "\" string=\"" + (is_string ? "true" : "false") + "\">" +
         value + "</｜DSML｜parameter>\n";
}

std::string invoke(const std::string& name, const std::string& parameters) {
  return "<｜DSML｜invoke name=\"" + name + "\">\n" + parameters + "</｜DSML｜invoke>\n";
}

std::string block(const std::string& invokes) {
  return "\n\n<｜DSML｜tool_calls>\n" + invokes + "</｜DSML｜tool_calls>";
}

/// Blocks as models write them for tools of agents.
const std::vector<std::string> kBlocks = {
    block(invoke("bash", parameter("cmd", true, "rm -rf /srv/data/cache/old, /srv/data/tmp"))),
    block(invoke("bash", parameter("cmd", true, "ls -la"))),
    block(invoke("delete_rows",
                 parameter("table", true, "visitors") + parameter("where", true, "id = 12 and x < 3"))),
    block(invoke("set", parameter("n", false, "1234") + parameter("ratio", false, "-0.25e3") +
                            parameter("on", false, "true") + parameter("note", false, "null"))),
    block(invoke("edit", parameter("path", true, "/a/é/\"b\"\\c.html") +
                             parameter("text", true, "<p>\n</p>\n</parameter></invoke> <b") +
                             parameter("edits", false, R"([{"old": "a", "new": "}"}, {"n": [1, 2, [3]]}])") +
                             parameter("options", false, R"({"dry": {"run": false}})"))),
    block(invoke("now", "\n") + invoke("bash", parameter("cmd", true, "</")) + invoke("now", "\n")),
    block(invoke("now", "\n") + invoke("set", parameter("n", false, "7"))),
};

std::vector<DeclaredTool> tools() {
  std::vector<DeclaredTool> tools;
  for (const char* name : {"bash", "delete_rows", "set", "edit", "now"}) tools.push_back({name, {}});
  return tools;
}

/// The reply's first `size` bytes, piece by piece as a model writes: characters, and control tokens whole.
std::vector<MarkedText> pieces_of(const MarkedText& reply) {
  std::vector<MarkedText> pieces;
  for_each_stretch(
      reply,
      [&](std::string_view text) {
        while (!text.empty()) {
          std::size_t size = 1;
          while (size < text.size() && (static_cast<unsigned char>(text[size]) & 0xC0) == 0x80) ++size;
          pieces.emplace_back().add_text(text.substr(0, size));
          text.remove_prefix(size);
        }
      },
      [&](std::string_view token) { pieces.emplace_back().add_control(token); });
  return pieces;
}

std::vector<Json> events_of(const std::string& stream) {
  std::vector<Json> events;
  for (std::size_t at = stream.find("data: "); at != std::string::npos; at = stream.find("data: ", at)) {
    const std::size_t end = stream.find('\n', at);
    const std::string data = stream.substr(at + 6, end - at - 6);
    if (data != "[DONE]") events.push_back(Json::parse(data));
    at = end;
  }
  return events;
}

void read_chat_body(const Json& body, Sent& sent) {
  const Json& choice = body["choices"][0];
  sent.reason = choice["finish_reason"];
  for (const Json& call : choice["message"].value("tool_calls", Json::array()))
    sent.calls.push_back({call["function"]["name"], call["function"]["arguments"]});
}

void read_chat_stream(const std::vector<Json>& events, Sent& sent) {
  for (const Json& event : events) {
    const Json& choice = event["choices"][0];
    if (!choice["finish_reason"].is_null()) sent.reason = choice["finish_reason"];
    for (const Json& call : choice["delta"].value("tool_calls", Json::array())) {
      const std::size_t idx = call["index"];
      if (idx == sent.calls.size()) sent.calls.push_back({call["function"]["name"], ""});
      sent.calls.at(idx).arguments += call["function"]["arguments"].get<std::string>();
    }
  }
}

void read_response(const Json& response, Sent& sent) {
  sent.reason = response["status"];
  for (const Json& item : response["output"]) {
    if (item["type"] == "function_call")
      sent.calls.push_back({item["name"], item["arguments"], item["status"] == "completed"});
  }
}

/// Clients of a stream make the calls of items that are done.
void read_response_stream(const std::vector<Json>& events, Sent& sent) {
  std::set<std::string> done, arguments_done;
  for (const Json& event : events) {
    if (event["type"] == "response.output_item.done") done.insert(event["item"]["id"]);
    if (event["type"] == "response.function_call_arguments.done") arguments_done.insert(event["item_id"]);
  }
  read_response(events.back()["response"], sent);
  for (const Json& item : events.back()["response"]["output"]) {
    if (item["type"] != "function_call") continue;
    EXPECT_EQ(done.contains(item["id"]), item["status"] == "completed");
    EXPECT_EQ(arguments_done.contains(item["id"]), item["status"] == "completed");
  }
}

void read_message(const Json& message, Sent& sent) {
  sent.reason = message["stop_reason"];
  for (const Json& part : message["content"]) {
    if (part["type"] == "tool_use") sent.calls.push_back({part["name"], part["input"].dump()});
  }
}

/// Its clients complete the JSON of what is no JSON, so a block must be whole as soon as it begins.
void read_message_stream(const std::vector<Json>& events, Sent& sent) {
  std::map<std::size_t, SentCall> calls;
  for (const Json& event : events) {
    if (event["type"] == "content_block_start" && event["content_block"]["type"] == "tool_use")
      calls[event["index"]] = {event["content_block"]["name"], ""};
    if (event["type"] == "content_block_delta" && event["delta"]["type"] == "input_json_delta")
      calls.at(event["index"]).arguments += event["delta"]["partial_json"].get<std::string>();
    if (event["type"] == "message_delta") sent.reason = event["delta"]["stop_reason"];
  }
  for (const auto& [idx, call] : calls) {
    EXPECT_TRUE(Json::accept(call.arguments)) << call.arguments;
    sent.calls.push_back({call.name, Json::parse(call.arguments, nullptr, false).dump()});
  }
}

/// The reply's first pieces, sent in a protocol; all of them, not cut, without `num_pieces`.
Sent sent(const Protocol* api, bool stream, CallEnforcement enforcement, const std::vector<MarkedText>& reply,
          std::optional<std::size_t> num_pieces) {
  const std::vector<DeclaredTool> declared = tools();
  ReplyReader reader(ThinkingMode::kChat, declared, enforcement);
  MarkedText read;
  for (std::size_t i = 0; i < num_pieces.value_or(reply.size()); ++i) read.append(reply[i]);
  const std::vector<Piece> pieces = {{reader.feed(read), {}}, {reader.finish(num_pieces.has_value()), {}}};
  Sent sent;
  const ReplyEnd reason = num_pieces ? ReplyEnd::kLength : ReplyEnd::kToolCalls;
  sent.bytes = encoded({.protocol = api, .stream = stream}, pieces, reason);
  if (stream) {
    const std::vector<Json> events = events_of(sent.bytes);
    if (api == &kChatCompletionsApi) read_chat_stream(events, sent);
    if (api == &kResponsesApi) read_response_stream(events, sent);
    if (api == &kMessagesApi) read_message_stream(events, sent);
  } else {
    const Json body = Json::parse(sent.bytes);
    if (api == &kChatCompletionsApi) read_chat_body(body, sent);
    if (api == &kResponsesApi) read_response(body, sent);
    if (api == &kMessagesApi) read_message(body, sent);
  }
  return sent;
}

std::string reason_of_a_cut(const Protocol* api) {
  if (api == &kResponsesApi) return "incomplete";
  return api == &kMessagesApi ? "max_tokens" : "length";
}

/// `call` of a cut reply, as `whole` is in all of it.
void expect_whole_or_unusable(const SentCall& call, const SentCall& whole) {
  EXPECT_EQ(call.name, whole.name);
  if (Json::accept(call.arguments)) {
    EXPECT_EQ(call, whole);
    return;
  }
  EXPECT_TRUE(whole.arguments.starts_with(call.arguments)) << call.arguments;
}

class CutCallTest : public testing::TestWithParam<std::tuple<const Protocol*, bool, CallEnforcement>> {};

TEST_P(CutCallTest, IsWholeOrUnusableWhereverItIsCut) {
  const auto [api, stream, enforcement] = GetParam();
  for (const std::string& block : kBlocks) {
    const std::string text = enforcement == CallEnforcement::kWholeBody ? block : "I will:" + block;
    const std::vector<MarkedText> reply = pieces_of(with_marked_specials(text));
    const Sent whole = sent(api, stream, enforcement, reply, std::nullopt);
    ASSERT_FALSE(whole.calls.empty()) << text;
    std::size_t num_calls = 0;
    for (std::size_t size = 0; size <= reply.size(); ++size) {
      std::string cut;
      for (std::size_t i = 0; i < size; ++i) cut += reply[i].text;
      SCOPED_TRACE("cut after: " + cut);
      const Sent got = sent(api, stream, enforcement, reply, size);
      EXPECT_EQ(got.reason, reason_of_a_cut(api));
      EXPECT_EQ(got.bytes.find("DSML"), std::string::npos);
      ASSERT_LE(got.calls.size(), whole.calls.size());
      for (std::size_t i = 0; i < got.calls.size(); ++i)
        expect_whole_or_unusable(got.calls[i], whole.calls[i]);
      // What was whole once stays so.
      const std::size_t num_whole = static_cast<std::size_t>(std::ranges::count_if(
          got.calls, [](const SentCall& call) { return Json::accept(call.arguments); }));
      EXPECT_GE(num_whole, num_calls);
      num_calls = num_whole;
    }
    EXPECT_EQ(num_calls, whole.calls.size());
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, CutCallTest,
    testing::Combine(testing::Values(&kChatCompletionsApi, &kResponsesApi, &kMessagesApi), testing::Bool(),
                     testing::Values(CallEnforcement::kNone, CallEnforcement::kFromToken,
                                     CallEnforcement::kWholeBody)));

TEST(CutCall, HalfAClosingTagIsNoPartOfAValue) {
  const std::string text = kBlocks[1];
  const std::vector<MarkedText> reply = pieces_of(with_marked_specials(text));
  for (std::size_t size = 0; size <= reply.size(); ++size) {
    const Sent got = sent(&kChatCompletionsApi, true, CallEnforcement::kWholeBody, reply, size);
    EXPECT_EQ(got.bytes.find("la<"), std::string::npos) << got.bytes;
    EXPECT_EQ(got.bytes.find("</"), std::string::npos) << got.bytes;
  }
}

/// What a client makes of a call that brought no arguments is a call without any.
TEST(CutCall, HasNeverNoArguments) {
  for (const std::string& block : kBlocks) {
    const std::vector<MarkedText> reply = pieces_of(with_marked_specials(block));
    for (std::size_t size = 0; size <= reply.size(); ++size) {
      for (const SentCall& call :
           sent(&kChatCompletionsApi, true, CallEnforcement::kWholeBody, reply, size).calls)
        EXPECT_NE(call.arguments, "");
    }
  }
}

}  // namespace
}  // namespace baleen
