// How a reply ends, as clients of every protocol see it: by a limit within a call, by a stop string, by the
// server's own limit.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/server/running_server.h"

namespace baleen {
namespace {

using Json = nlohmann::json;
using test::HttpConnection;
using test::RunningServer;
using test::RunningServerOptions;

constexpr const char* kCommand = "rm \"/a\",\n\n</b>";

Json command_schema() {
  return {{"type", "object"},
          {"properties", {{"cmd", {{"type", "string"}, {"enum", {kCommand}}}}}},
          {"required", {"cmd"}},
          {"additionalProperties", false}};
}

/// What a client of any protocol makes of a reply.
struct Received {
  std::string reasoning, content, reason, stop_sequence;
  std::vector<std::string> arguments;  ///< of its calls
  bool has_text = false;               ///< a block or item of text, empty or not
  bool calls_are_done = true;          ///< responses: no call is incomplete
  std::int64_t reply_tokens = 0;
};

class Protocol {
 public:
  virtual ~Protocol() = default;
  /// Of a user's message; `tool`: one that must be called.
  [[nodiscard]] virtual Json request(const std::string& text, bool tool) const = 0;
  [[nodiscard]] virtual std::string path() const = 0;
  [[nodiscard]] virtual std::string limit_field() const { return "max_tokens"; }
  [[nodiscard]] virtual Received read(const Json& body) const = 0;
  [[nodiscard]] virtual Received read(const std::vector<Json>& events) const = 0;
};

class ChatCompletions final : public Protocol {
 public:
  Json request(const std::string& text, bool tool) const override {
    Json request = {{"messages", {{{"role", "user"}, {"content", text}}}}, {"temperature", 0}};
    if (!tool) return request;
    request["tools"] = {
        {{"type", "function"}, {"function", {{"name", "sh"}, {"parameters", command_schema()}}}}};
    request["tool_choice"] = "required";
    request["parallel_tool_calls"] = false;
    return request;
  }
  std::string path() const override { return "/v1/chat/completions"; }
  Received read(const Json& body) const override {
    const Json& message = body["choices"][0]["message"];
    Received got{.reasoning = message.value("reasoning_content", ""),
                 .content = message["content"].is_null() ? "" : message["content"].get<std::string>(),
                 .reason = body["choices"][0]["finish_reason"]};
    for (const Json& call : message.value("tool_calls", Json::array()))
      got.arguments.push_back(call["function"]["arguments"]);
    got.reply_tokens = body["usage"]["completion_tokens"];
    return got;
  }
  Received read(const std::vector<Json>& events) const override {
    Received got;
    for (const Json& event : events) {
      const Json& choice = event["choices"][0];
      if (!choice["finish_reason"].is_null()) got.reason = choice["finish_reason"];
      const Json& delta = choice["delta"];
      got.content += delta.value("content", "");
      got.reasoning += delta.value("reasoning_content", "");
      for (const Json& call : delta.value("tool_calls", Json::array())) {
        got.arguments.resize(
            std::max<std::size_t>(got.arguments.size(), call["index"].get<std::size_t>() + 1));
        got.arguments[call["index"]] += call["function"]["arguments"].get<std::string>();
      }
    }
    return got;
  }
};

class Responses final : public Protocol {
 public:
  Json request(const std::string& text, bool tool) const override {
    Json request = {{"input", text}, {"temperature", 0}};
    if (!tool) return request;
    request["tools"] = {{{"type", "function"}, {"name", "sh"}, {"parameters", command_schema()}}};
    request["tool_choice"] = "required";
    request["parallel_tool_calls"] = false;
    return request;
  }
  std::string path() const override { return "/v1/responses"; }
  std::string limit_field() const override { return "max_output_tokens"; }
  Received read(const Json& body) const override {
    Received got{.reason = body["status"]};
    for (const Json& item : body["output"]) {
      if (item["type"] == "function_call") {
        got.arguments.push_back(item["arguments"]);
        got.calls_are_done &= item["status"] == "completed";
      }
      if (item["type"] == "message") got.content += item["content"][0]["text"].get<std::string>();
      if (item["type"] == "reasoning") got.reasoning += item["content"][0]["text"].get<std::string>();
    }
    got.reply_tokens = body["usage"]["output_tokens"];
    return got;
  }
  Received read(const std::vector<Json>& events) const override {
    Received got = read(events.back()["response"]);
    const bool is_done = std::ranges::any_of(events, [](const Json& event) {
      return event["type"] == "response.function_call_arguments.done" ||
             (event["type"] == "response.output_item.done" && event["item"]["type"] == "function_call");
    });
    EXPECT_EQ(is_done, got.calls_are_done && !got.arguments.empty());
    return got;
  }
};

class Messages final : public Protocol {
 public:
  Json request(const std::string& text, bool tool) const override {
    Json request = {
        {"messages", {{{"role", "user"}, {"content", text}}}}, {"temperature", 0}, {"max_tokens", 400}};
    if (!tool) return request;
    request["tools"] = {{{"name", "sh"}, {"input_schema", command_schema()}}};
    request["tool_choice"] = {{"type", "any"}, {"disable_parallel_tool_use", true}};
    return request;
  }
  std::string path() const override { return "/v1/messages"; }
  Received read(const Json& body) const override {
    Received got{.reason = body["stop_reason"]};
    if (!body["stop_sequence"].is_null()) got.stop_sequence = body["stop_sequence"];
    for (const Json& block : body["content"]) {
      got.content += block.value("text", "");
      got.has_text |= block["type"] == "text";
      got.reasoning += block.value("thinking", "");
      if (block["type"] == "tool_use") got.arguments.push_back(block["input"].dump());
    }
    got.reply_tokens = body["usage"]["output_tokens"];
    return got;
  }
  Received read(const std::vector<Json>& events) const override {
    Received got;
    std::map<std::size_t, std::string> arguments;
    for (const Json& event : events) {
      if (event["type"] == "content_block_start" && event["content_block"]["type"] == "tool_use")
        arguments[event["index"]];
      if (event["type"] == "content_block_start") got.has_text |= event["content_block"]["type"] == "text";
      if (event["type"] == "content_block_delta") {
        got.content += event["delta"].value("text", "");
        got.reasoning += event["delta"].value("thinking", "");
        if (event["delta"].contains("partial_json"))
          arguments[event["index"]] += event["delta"]["partial_json"].get<std::string>();
      }
      if (event["type"] != "message_delta") continue;
      got.reason = event["delta"]["stop_reason"];
      if (!event["delta"]["stop_sequence"].is_null()) got.stop_sequence = event["delta"]["stop_sequence"];
    }
    // Clients complete what is no JSON: a block that has begun must be whole.
    for (const auto& [idx, json] : arguments) EXPECT_TRUE(Json::accept(json)) << json;
    for (const auto& [idx, json] : arguments) got.arguments.push_back(json);
    return got;
  }
};

class ReplyEndTest : public testing::Test {
 protected:
  static void SetUpTestSuite() { server_ = std::make_unique<RunningServer>(); }
  static void TearDownTestSuite() { server_.reset(); }

  static Received ask(const Protocol& protocol, Json request, bool stream) {
    if (!stream) return protocol.read(server_->ask(protocol.path(), request));
    request["stream"] = true;
    HttpConnection connection(server_->port());
    connection.send("POST", protocol.path(), request.dump());
    EXPECT_EQ(connection.read_head().status, 200);
    std::vector<Json> events;
    while (auto data = connection.next_event()) {
      if (*data != "[DONE]") events.push_back(Json::parse(*data));
    }
    return protocol.read(events);
  }
  static std::vector<std::unique_ptr<Protocol>> protocols() {
    std::vector<std::unique_ptr<Protocol>> all;
    all.push_back(std::make_unique<ChatCompletions>());
    all.push_back(std::make_unique<Responses>());
    all.push_back(std::make_unique<Messages>());
    return all;
  }
  static bool is_limit(const std::string& reason) {
    return reason == "length" || reason == "incomplete" || reason == "max_tokens";
  }

  static std::unique_ptr<RunningServer> server_;
};
std::unique_ptr<RunningServer> ReplyEndTest::server_;

TEST_F(ReplyEndTest, ACallIsWholeOrUnusableAtEveryLimit) {
  const Json whole = {{"cmd", kCommand}};
  for (const auto& protocol : protocols()) {
    const Json request = protocol->request("Go.", true);
    const std::int64_t num_tokens = ask(*protocol, request, false).reply_tokens;
    ASSERT_GT(num_tokens, 20);
    for (std::int64_t limit = 1; limit <= num_tokens; ++limit) {
      for (const bool stream : {false, true}) {
        SCOPED_TRACE(protocol->path() + (stream ? ", streamed, " : ", ") + std::to_string(limit));
        Json cut = request;
        cut[protocol->limit_field()] = limit;
        const Received got = ask(*protocol, cut, stream);
        EXPECT_EQ(is_limit(got.reason), limit < num_tokens) << got.reason;
        EXPECT_EQ(got.content, "");
        for (const std::string& arguments : got.arguments) {
          EXPECT_EQ(arguments.find("DSML"), std::string::npos);
          if (Json::accept(arguments)) {
            EXPECT_EQ(Json::parse(arguments), whole);
          } else {
            EXPECT_TRUE(is_limit(got.reason));
            EXPECT_FALSE(protocol->path() == "/v1/responses" && got.calls_are_done);
          }
        }
        EXPECT_EQ(got.arguments.size() == 1 || limit < num_tokens, true);
      }
    }
  }
}

/// stop for two protocols; responses have no stop strings.
Json with_stops(const Protocol& protocol, Json request, const std::vector<std::string>& stops) {
  request[protocol.path() == "/v1/messages" ? "stop_sequences" : "stop"] = stops;
  return request;
}

TEST_F(ReplyEndTest, AStopStringDoesNotCutACall) {
  for (const auto& protocol : protocols()) {
    if (protocol->path() == "/v1/responses") continue;
    for (const std::string stop : {",", "\n\n", "<", "\"", "｜DSML｜", "name=", "\n", "}", "rm"}) {
      for (const bool stream : {false, true}) {
        SCOPED_TRACE(protocol->path() + (stream ? ", streamed: " : ": ") + stop);
        const Received got =
            ask(*protocol, with_stops(*protocol, protocol->request("Go.", true), {"no such", stop}), stream);
        EXPECT_TRUE(got.reason == "tool_calls" || got.reason == "tool_use") << got.reason;
        ASSERT_EQ(got.arguments.size(), 1u);
        EXPECT_EQ(Json::parse(got.arguments[0]), (Json{{"cmd", kCommand}}));
        EXPECT_EQ(got.stop_sequence, "");
      }
    }
  }
}

/// A word of `content`, not its first, that stands in `reasoning` too.
std::string shared_word(const std::string& content, const std::string& reasoning) {
  for (std::size_t begin = content.find(' '); begin != std::string::npos;
       begin = content.find(' ', begin + 1)) {
    const std::string word = content.substr(begin, content.find_first_of(" .,\n", begin + 1) - begin);
    if (word.size() > 3 && reasoning.find(word) != std::string::npos) return word;
  }
  return "";
}

TEST_F(ReplyEndTest, AStopStringEndsTheContentAndLeavesTheReasoning) {
  for (const auto& protocol : protocols()) {
    if (protocol->path() == "/v1/responses") continue;
    Json request = protocol->request("Tell me a story about an owl.", false);
    request["max_tokens"] = 400;
    request["thinking"] = {{"type", protocol->path() == "/v1/messages" ? "adaptive" : "enabled"}};
    const Received whole = ask(*protocol, request, false);
    const std::string stop = shared_word(whole.content, whole.reasoning);
    ASSERT_NE(stop, "") << whole.reasoning << "\n" << whole.content;
    for (const bool stream : {false, true}) {
      SCOPED_TRACE(protocol->path() + (stream ? ", streamed" : ""));
      const Received got = ask(*protocol, with_stops(*protocol, request, {"\u2603", stop}), stream);
      EXPECT_EQ(got.reasoning, whole.reasoning);
      EXPECT_EQ(got.content, whole.content.substr(0, whole.content.find(stop)));
      EXPECT_EQ(got.reason, protocol->path() == "/v1/messages" ? "stop_sequence" : "stop");
      if (protocol->path() != "/v1/messages") continue;
      EXPECT_TRUE(got.has_text);
      EXPECT_EQ(got.stop_sequence, stop);
    }
    // What ends before the first letter of the content.
    const Received empty =
        ask(*protocol, with_stops(*protocol, request, {whole.content.substr(0, 1)}), false);
    EXPECT_EQ(empty.reasoning, whole.reasoning);
    EXPECT_EQ(empty.content, "");
    EXPECT_EQ(empty.has_text, protocol->path() == "/v1/messages");
  }
}

TEST_F(ReplyEndTest, ARawReplyIsContentAltogether) {
  Json request = {{"prompt", "Once upon a time"}, {"temperature", 0}, {"max_tokens", 30}};
  const std::string text = server_->ask("/v1/completions", request)["choices"][0]["text"];
  const std::string stop = text.substr(text.size() / 2, 4);
  request["stop"] = stop;
  const Json choice = server_->ask("/v1/completions", request)["choices"][0];
  EXPECT_EQ(choice["text"], text.substr(0, text.find(stop)));
  EXPECT_EQ(choice["finish_reason"], "stop");
}

TEST_F(ReplyEndTest, ANamedToolIsCalledOnce) {
  Json request = {{"messages", {{{"role", "user"}, {"content", "Go."}}}}, {"max_tokens", 400}};
  request["tools"] = {
      {{"type", "function"},
       {"function",
        {{"name", "pick"},
         {"parameters",
          {{"type", "object"}, {"properties", {{"n", {{"enum", {1, 2}}}}}}, {"required", {"n"}}}}}}}};
  request["tool_choice"] = {{"type", "function"}, {"function", {{"name", "pick"}}}};
  for (int seed = 0; seed < 8; ++seed) {
    request["seed"] = seed;
    const Json choice = server_->ask("/v1/chat/completions", request)["choices"][0];
    EXPECT_EQ(choice["finish_reason"], "tool_calls");
    EXPECT_EQ(choice["message"]["tool_calls"].size(), 1u) << choice;
  }
}

TEST(ReplyLimitTest, RequestsThatDoNotSayGetTheServers) {
  RunningServerOptions options;
  options.max_reply_tokens = 7;
  RunningServer server(options);
  const ChatCompletions chat;
  Json request = chat.request("Tell me a story.", false);
  const Received got = chat.read(server.ask(chat.path(), request));
  EXPECT_EQ(got.reply_tokens, 7);
  EXPECT_EQ(got.reason, "length");
  request["max_tokens"] = 12;
  EXPECT_EQ(chat.read(server.ask(chat.path(), request)).reply_tokens, 12);
  const Responses responses;
  EXPECT_EQ(
      responses.read(server.ask(responses.path(), responses.request("Tell me a story.", false))).reply_tokens,
      7);
}

}  // namespace
}  // namespace baleen
