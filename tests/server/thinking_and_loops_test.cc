// Budgets of thinking and loops through the whole server, on the bundled model, in every protocol.
#include <gtest/gtest.h>

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

struct Received {
  std::string reasoning, content, reason;
  std::int64_t reply_tokens = 0, reasoning_tokens = 0;
};

/// A protocol's way to ask for a reply that thinks, and to say what came.
struct Speaker {
  const char* path;
  Json request;
  Received (*read)(const Json& body);
  /// Where the whole body stands in the events of a stream, or nothing.
  Received (*read_events)(const std::vector<Json>& events);
};

Received read_chat(const Json& body) {
  const Json& choice = body["choices"][0];
  const Json& usage = body["usage"];
  return {.reasoning = choice["message"].value("reasoning_content", ""),
          .content = choice["message"]["content"].is_null() ? "" : choice["message"]["content"],
          .reason = choice["finish_reason"],
          .reply_tokens = usage["completion_tokens"],
          .reasoning_tokens = usage["completion_tokens_details"]["reasoning_tokens"]};
}

Received read_chat_events(const std::vector<Json>& events) {
  Received got;
  for (const Json& event : events) {
    if (event["choices"].empty()) {
      got.reply_tokens = event["usage"]["completion_tokens"];
      got.reasoning_tokens = event["usage"]["completion_tokens_details"]["reasoning_tokens"];
      continue;
    }
    const Json& choice = event["choices"][0];
    got.content += choice["delta"].value("content", "");
    got.reasoning += choice["delta"].value("reasoning_content", "");
    if (!choice["finish_reason"].is_null()) got.reason = choice["finish_reason"];
  }
  return got;
}

Received read_response(const Json& body) {
  Received got{.reason = body["status"],
               .reply_tokens = body["usage"]["output_tokens"],
               .reasoning_tokens = body["usage"]["output_tokens_details"]["reasoning_tokens"]};
  if (!body["incomplete_details"].is_null()) got.reason = body["incomplete_details"]["reason"];
  for (const Json& item : body["output"])
    (item["type"] == "reasoning" ? got.reasoning : got.content) +=
        item["content"][0]["text"].get<std::string>();
  return got;
}

Received read_response_events(const std::vector<Json>& events) {
  return read_response(events.back()["response"]);
}

Received read_message(const Json& body) {
  Received got{.reason = body["stop_reason"],
               .reply_tokens = body["usage"]["output_tokens"],
               .reasoning_tokens = body["usage"]["output_tokens_details"]["thinking_tokens"]};
  for (const Json& block : body["content"]) {
    got.content += block.value("text", "");
    got.reasoning += block.value("thinking", "");
  }
  return got;
}

Received read_message_events(const std::vector<Json>& events) {
  Received got;
  for (const Json& event : events) {
    if (event["type"] == "content_block_delta") {
      got.content += event["delta"].value("text", "");
      got.reasoning += event["delta"].value("thinking", "");
    }
    if (event["type"] != "message_delta") continue;
    got.reason = event["delta"]["stop_reason"];
    got.reply_tokens = event["usage"]["output_tokens"];
    got.reasoning_tokens = event["usage"]["output_tokens_details"]["thinking_tokens"];
  }
  return got;
}

std::vector<Speaker> speakers() {
  const Json messages = {{{"role", "user"}, {"content", "Tell me a story about an owl."}}};
  return {{"/v1/chat/completions",
           {{"messages", messages}, {"reasoning_effort", "high"}, {"temperature", 0}, {"max_tokens", 400}},
           read_chat,
           read_chat_events},
          {"/v1/responses",
           {{"input", "Tell me a story about an owl."},
            {"reasoning", {{"effort", "high"}}},
            {"temperature", 0},
            {"max_output_tokens", 400}},
           read_response,
           read_response_events},
          {"/v1/messages",
           {{"messages", messages},
            {"thinking", {{"type", "adaptive"}}},
            {"temperature", 0},
            {"max_tokens", 400}},
           read_message,
           read_message_events}};
}

Received ask(RunningServer& server, const Speaker& speaker, const Json& fields, bool stream) {
  Json request = speaker.request;
  if (!fields.is_null()) request.update(fields);
  if (!stream) return speaker.read(server.ask(speaker.path, request));
  request["stream"] = true;
  if (std::string(speaker.path) == "/v1/chat/completions")
    request["stream_options"] = {{"include_usage", true}};
  HttpConnection connection(server.port());
  connection.send("POST", speaker.path, request.dump());
  EXPECT_EQ(connection.read_head().status, 200);
  std::vector<Json> events;
  while (auto data = connection.next_event()) {
    if (*data != "[DONE]") events.push_back(Json::parse(*data));
  }
  return speaker.read_events(events);
}

class ThinkingAndLoops : public testing::Test {
 protected:
  static void SetUpTestSuite() { server_ = std::make_unique<RunningServer>(); }
  static void TearDownTestSuite() { server_.reset(); }
  static std::int64_t counter(const std::string& line) {
    const std::string metrics = server_->get("/metrics").body;
    const std::size_t at = metrics.find("\n" + line + " ");
    EXPECT_NE(at, std::string::npos) << line;
    return at == std::string::npos ? -1 : std::stoll(metrics.substr(at + line.size() + 2));
  }

  static std::unique_ptr<RunningServer> server_;
};
std::unique_ptr<RunningServer> ThinkingAndLoops::server_;

TEST_F(ThinkingAndLoops, ABudgetHoldsInEveryProtocol) {
  const std::int64_t before = counter("baleen_ended_thinking_total{cause=\"budget\"}");
  std::int64_t num_ended = 0;
  for (const Speaker& speaker : speakers()) {
    const Received free = ask(*server_, speaker, {}, false);
    ASSERT_GT(free.reasoning_tokens, 20);
    ASSERT_NE(free.content, "");
    for (const std::int64_t budget : {0, 1, 5, 17}) {
      for (const bool stream : {false, true}) {
        SCOPED_TRACE(testing::Message() << speaker.path << ", budget " << budget << ", streamed " << stream);
        const Received got = ask(*server_, speaker, {{"max_thinking_tokens", budget}}, stream);
        ++num_ended;
        EXPECT_EQ(got.reasoning_tokens, budget + 1);  // with the token that ends it
        EXPECT_EQ(free.reasoning.substr(0, got.reasoning.size()), got.reasoning);
        EXPECT_EQ(got.reasoning.empty(), budget == 0);
        EXPECT_NE(got.content, "");
        EXPECT_EQ(got.content.find("think>"), std::string::npos) << got.content;
        EXPECT_GT(got.reply_tokens, got.reasoning_tokens);
      }
    }
    const Received wide = ask(*server_, speaker, {{"max_thinking_tokens", free.reasoning_tokens}}, false);
    EXPECT_EQ(wide.reasoning, free.reasoning);
    EXPECT_EQ(wide.content, free.content);
  }
  EXPECT_EQ(counter("baleen_ended_thinking_total{cause=\"budget\"}"), before + num_ended);
}

TEST_F(ThinkingAndLoops, TheProtocolsOwnBudgets) {
  Speaker chat = speakers()[0], messages = speakers()[2];
  const Json enabled = {{"thinking", {{"type", "enabled"}, {"budget_tokens", 9}}}};
  EXPECT_EQ(ask(*server_, messages, enabled, false).reasoning_tokens, 10);
  EXPECT_EQ(ask(*server_, chat, enabled, false).reasoning_tokens, 10);
  EXPECT_EQ(ask(*server_, chat, {{"reasoning", {{"max_tokens", 9}}}}, false).reasoning_tokens, 10);
}

TEST_F(ThinkingAndLoops, DraftsChunksAndABatchDoNotShowInABudget) {
  RunningServerOptions with_drafts;
  with_drafts.scheduler.speculate = 3;
  RunningServer drafting(with_drafts);
  for (const double temperature : {0.0, 0.9}) {
    Json fields = {{"max_thinking_tokens", 14}, {"temperature", temperature}, {"seed", 5}, {"n", 3}};
    const Speaker chat = speakers()[0];
    Json request = chat.request;
    request.update(fields);
    const Json plain = server_->ask(chat.path, request), drafted = drafting.ask(chat.path, request);
    EXPECT_EQ(drafted["choices"], plain["choices"]);
    EXPECT_EQ(plain["usage"]["completion_tokens_details"]["reasoning_tokens"], 3 * 15);
  }
}

TEST_F(ThinkingAndLoops, ABudgetHoldsUnderAGrammarAndWithTools) {
  Json request = speakers()[0].request;
  request["max_thinking_tokens"] = 6;
  request["response_format"] = {{"type", "json_schema"},
                                {"json_schema",
                                 {{"name", "n"},
                                  {"schema",
                                   {{"type", "object"},
                                    {"properties", {{"n", {{"enum", {1, 2}}}}}},
                                    {"required", {"n"}},
                                    {"additionalProperties", false}}}}}};
  const Received got = read_chat(server_->ask("/v1/chat/completions", request));
  EXPECT_EQ(got.reasoning_tokens, 7);
  EXPECT_TRUE(Json::parse(got.content).contains("n")) << got.content;
}

TEST_F(ThinkingAndLoops, TheServersBudgetIsForRequestsThatDoNotSay) {
  RunningServerOptions options;
  options.thinking_budget = 4;
  RunningServer server(options);
  const Speaker chat = speakers()[0];
  EXPECT_EQ(ask(server, chat, {}, false).reasoning_tokens, 5);
  EXPECT_EQ(ask(server, chat, {{"max_thinking_tokens", 8}}, false).reasoning_tokens, 9);
  EXPECT_GT(ask(server, chat, {{"max_thinking_tokens", -1}}, false).reasoning_tokens, 20);
}

/// Makes the model repeat what it has said.
const Json kLoops = {{"repetition_penalty", 0.05}, {"max_thinking_tokens", 0}};

TEST_F(ThinkingAndLoops, AReplyThatLoopsEndsAndSaysSo) {
  const std::int64_t before = counter("baleen_looping_replies_total");
  std::int64_t num_looping = 0;
  for (const Speaker& speaker : speakers()) {
    Json fields = kLoops;
    fields["repetition_detection"] = false;
    const Received free = ask(*server_, speaker, fields, false);
    EXPECT_TRUE(free.reason == "length" || free.reason == "max_tokens" || free.reason == "max_output_tokens")
        << free.reason;
    ASSERT_EQ(free.reply_tokens, 400) << free.content;
    fields["repetition_detection"] = {{"min_tokens", 60}};
    for (const bool stream : {false, true}) {
      SCOPED_TRACE(testing::Message() << speaker.path << ", streamed " << stream);
      const Received got = ask(*server_, speaker, fields, stream);
      ++num_looping;
      EXPECT_EQ(got.reason, "repetition") << got.content;
      EXPECT_EQ(free.content.substr(0, got.content.size()), got.content);
      EXPECT_LT(got.reply_tokens, 400);
    }
  }
  EXPECT_EQ(counter("baleen_looping_replies_total"), before + num_looping);
  EXPECT_EQ(server_->stats()["scheduler"]["looping_replies"], before + num_looping);
}

TEST_F(ThinkingAndLoops, ThinkingThatLoopsIsEndedAndTheReplyGoesOn) {
  const std::int64_t before = counter("baleen_ended_thinking_total{cause=\"repetition\"}");
  for (const Speaker& speaker : speakers()) {
    Json fields = kLoops;
    fields["max_thinking_tokens"] = -1;
    fields["repetition_detection"] = {{"min_tokens", 60}};
    const Received got = ask(*server_, speaker, fields, true);
    EXPECT_GT(got.reasoning_tokens, 60);
    EXPECT_LT(got.reasoning_tokens, 300);
    EXPECT_NE(got.content, "") << speaker.path << ": " << got.reasoning;
  }
  EXPECT_EQ(counter("baleen_ended_thinking_total{cause=\"repetition\"}"), before + 3);
}

TEST_F(ThinkingAndLoops, ARawReplyMayLoopToo) {
  Json request = {{"prompt", "Once upon a time"},
                  {"temperature", 0},
                  {"max_tokens", 300},
                  {"repetition_penalty", 0.05},
                  {"repetition_detection", {{"min_tokens", 60}}}};
  EXPECT_EQ(server_->ask("/v1/completions", request)["choices"][0]["finish_reason"], "repetition");
}

TEST_F(ThinkingAndLoops, DryMakesRepetitionsEnd) {
  const Speaker chat = speakers()[0];
  Json fields = kLoops;
  fields["repetition_detection"] = {{"min_tokens", 60}};
  const Received loops = ask(*server_, chat, fields, false);
  fields["dry_multiplier"] = 100;
  fields["dry_sequence_breakers"] = Json::array();
  const Received penalised = ask(*server_, chat, fields, false);
  EXPECT_EQ(loops.reason, "repetition") << loops.content;
  EXPECT_NE(penalised.reason, "repetition") << penalised.content;
}

}  // namespace
}  // namespace baleen
