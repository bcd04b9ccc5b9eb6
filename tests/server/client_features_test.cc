// What clients of the public APIs rely on beside a plain reply: kept responses, likelihoods of prompts,
// request ids, paths without their version, keep-alives, progress.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <tuple>

#include "tests/server/running_server.h"
#include "tests/support/temporary_folder.h"

namespace baleen {
namespace {

using Json = nlohmann::json;
using test::HttpConnection;
using test::HttpReply;
using test::RunningServer;
using test::RunningServerOptions;

Json chat(const std::string& text) {
  return {{"messages", {{{"role", "user"}, {"content", text}}}}, {"temperature", 0}, {"max_tokens", 8}};
}

Json respond(const std::string& text) {
  return {{"input", text}, {"temperature", 0}, {"max_output_tokens", 8}};
}

std::string long_text() {
  std::string text;
  for (int i = 0; i < 200; ++i) text += "The little fox lived in the forest. ";
  return text;
}

/// Every line of a stream's body, comments included.
std::string stream(RunningServer& server, std::string_view path, Json body) {
  body["stream"] = true;
  const HttpReply reply = server.post(path, body);
  EXPECT_EQ(reply.status, 200) << reply.body;
  return reply.body;
}

class ClientFeatures : public testing::Test {
 protected:
  static void SetUpTestSuite() { server_ = std::make_unique<RunningServer>(); }
  static void TearDownTestSuite() { server_.reset(); }
  static std::unique_ptr<RunningServer> server_;
};
std::unique_ptr<RunningServer> ClientFeatures::server_;

TEST_F(ClientFeatures, AResponseGoesOnFromAnEarlierOne) {
  const Json first = server_->ask("/v1/responses", respond("Tell me of a fox."));
  EXPECT_TRUE(first["store"]);
  const std::string id = first["id"];
  Json request = respond("And a bear.");
  request["previous_response_id"] = id;
  const Json second = server_->ask("/v1/responses", request);
  EXPECT_EQ(second["previous_response_id"], id);
  // The same conversation, sent whole and by reference.
  const Json item = first["output"][0];
  for (const Json& middle : {item, Json{{"type", "item_reference"}, {"id", item["id"]}}}) {
    Json whole = respond("");
    whole["input"] = {{{"role", "user"}, {"content", "Tell me of a fox."}},
                      middle,
                      {{"role", "user"}, {"content", "And a bear."}}};
    const Json third = server_->ask("/v1/responses", whole);
    EXPECT_EQ(third["usage"]["input_tokens"], second["usage"]["input_tokens"]);
    EXPECT_EQ(third["output"][0]["content"], second["output"][0]["content"]);
  }
  EXPECT_EQ(Json::parse(server_->get("/v1/responses/" + id).body), first);
  EXPECT_EQ(test::http_request(server_->port(), "DELETE", "/v1/responses/" + id).status, 200);
  EXPECT_EQ(server_->get("/v1/responses/" + id).status, 404);
  const HttpReply gone = server_->post("/v1/responses", request);
  EXPECT_EQ(gone.status, 400);
  EXPECT_EQ(Json::parse(gone.body)["error"]["code"], "previous_response_not_found");

  Json unkept = respond("x");
  unkept["store"] = false;
  const Json reply = server_->ask("/v1/responses", unkept);
  EXPECT_FALSE(reply["store"]);
  EXPECT_EQ(server_->get("/v1/responses/" + reply["id"].get<std::string>()).status, 404);
}

TEST(ResponseOwners, AKeyReadsItsOwnResponsesAlone) {
  const test::TemporaryFolder folder;
  const auto file = folder.path() / "keys";
  std::ofstream(file) << "one\ntwo\n";
  RunningServerOptions options;
  options.server.access.keys = ApiKeys(file);
  options.server.responses.max_responses = 2;
  RunningServer server(std::move(options));
  const auto ask = [&](const std::string& key, Json body) {
    return server.post("/v1/responses", body, {{"Authorization", "Bearer " + key}});
  };
  const std::string id = Json::parse(ask("one", respond("a")).body)["id"];
  Json next = respond("b");
  next["previous_response_id"] = id;
  EXPECT_EQ(ask("two", next).status, 400);
  EXPECT_EQ(ask("one", next).status, 200);
  const auto get = [&](const std::string& key) {
    return test::http_request(server.port(), "GET", "/v1/responses/" + id, "", {{"x-api-key", key}}).status;
  };
  EXPECT_EQ(get("two"), 404);
  EXPECT_EQ(get("one"), 200);
  EXPECT_EQ(ask("one", respond("c")).status, 200);
  EXPECT_EQ(ask("one", respond("d")).status, 200);
  EXPECT_EQ(get("one"), 404);  // two are kept
}

TEST_F(ClientFeatures, APromptIsScored) {
  const std::string text = "Once upon a time there was a little fox who lived in the forest.";
  const Json reply =
      server_->ask("/v1/completions", {{"prompt", text}, {"max_tokens", 0}, {"echo", true}, {"logprobs", 2}});
  const Json choice = reply["choices"][0];
  EXPECT_EQ(choice["text"], text);
  EXPECT_EQ(choice["finish_reason"], "length");
  EXPECT_EQ(reply["usage"]["completion_tokens"], 0);
  const Json logprobs = choice["logprobs"];
  std::string joined;
  for (const Json& token : logprobs["tokens"]) joined += token.get<std::string>();
  EXPECT_EQ(joined, text);
  ASSERT_TRUE(logprobs["token_logprobs"][0].is_null());
  ASSERT_TRUE(logprobs["top_logprobs"][0].is_null());
  for (std::size_t i = 1; i < logprobs["tokens"].size(); ++i) {
    EXPECT_LE(logprobs["token_logprobs"][i].get<double>(), 0.0);
    EXPECT_TRUE(logprobs["top_logprobs"][i].contains(logprobs["tokens"][i].get<std::string>()));
  }
  // The likelihood of a continuation is the one with which it was written.
  const Json written = server_->ask(
      "/v1/completions", {{"prompt", text}, {"max_tokens", 4}, {"temperature", 0}, {"logprobs", 1}});
  const Json both =
      server_->ask("/v1/completions", {{"prompt", text + written["choices"][0]["text"].get<std::string>()},
                                       {"max_tokens", 0},
                                       {"echo", true},
                                       {"logprobs", 1}});
  const Json all = both["choices"][0]["logprobs"];
  const Json tail = written["choices"][0]["logprobs"];
  const std::size_t before = logprobs["tokens"].size();
  if (all["tokens"].size() == before + tail["tokens"].size()) {  // else the tokens joined otherwise
    for (std::size_t i = 0; i < tail["tokens"].size(); ++i) {
      EXPECT_NEAR(all["token_logprobs"][before + i].get<double>(), tail["token_logprobs"][i].get<double>(),
                  1e-3);
    }
  }
}

TEST_F(ClientFeatures, ALongPromptIsScoredChunkByChunk) {
  // Eight rows of logits at a time, of more than a thousand tokens; the second time nothing comes from the
  // cache.
  const Json request = {
      {"prompt", long_text()}, {"max_tokens", 1}, {"temperature", 0}, {"echo", true}, {"logprobs", 0}};
  const Json first = server_->ask("/v1/completions", request)["choices"][0]["logprobs"];
  EXPECT_EQ(server_->ask("/v1/completions", request)["choices"][0]["logprobs"]["token_logprobs"],
            first["token_logprobs"]);
  EXPECT_EQ(first["token_logprobs"].size(), first["tokens"].size());
  EXPECT_GT(first["tokens"].size(), 1000u);
}

TEST_F(ClientFeatures, PathsWithoutTheirVersion) {
  EXPECT_EQ(server_->ask("/chat/completions", chat("hi"))["object"], "chat.completion");
  EXPECT_EQ(server_->ask("/responses", respond("hi"))["object"], "response");
  EXPECT_EQ(server_->get("/models").status, 200);
  EXPECT_EQ(Json::parse(server_->post("/messages", {{"max_tokens", 1}}).body)["type"], "error");
}

TEST_F(ClientFeatures, AByteOrderMarkIsNoPartOfABody) {
  const std::string mark = "\xEF\xBB\xBF";
  const Json message = {{"max_tokens", 1}, {"messages", {{{"role", "user"}, {"content", "hi"}}}}};
  const std::vector<std::pair<const char*, Json>> requests = {
      {"/v1/chat/completions", chat("hi")},   {"/v1/completions", {{"prompt", "hi"}}},
      {"/v1/responses", respond("hi")},       {"/v1/messages", message},
      {"/v1/messages/count_tokens", message}, {"/tokenize", {{"prompt", "hi"}}},
      {"/detokenize", {{"tokens", {5}}}}};
  for (const auto& [path, body] : requests) {
    const HttpReply reply = test::http_request(server_->port(), "POST", path, mark + body.dump());
    EXPECT_EQ(reply.status, 200) << path << reply.body;
  }
  EXPECT_EQ(test::http_request(server_->port(), "POST", "/tokenize", mark + mark + "{}").status, 400);
}

TEST_F(ClientFeatures, AddressesWithEmptySegments) {
  EXPECT_EQ(server_->ask("//v1/chat/completions", chat("hi"))["object"], "chat.completion");
  EXPECT_EQ(server_->ask("/v1//chat/completions/", chat("hi"))["object"], "chat.completion");
  EXPECT_EQ(server_->ask("/v1/v1/responses", respond("hi"))["object"], "response");
  EXPECT_EQ(server_->get("//v1/models").status, 200);
  EXPECT_EQ(server_->get("/v1/models/").status, 200);
  EXPECT_EQ(server_->get("//health/").status, 200);
  // Refusals speak the protocol that was meant.
  EXPECT_EQ(Json::parse(server_->post("//messages/", {{"max_tokens", 1}}).body)["type"], "error");
}

TEST_F(ClientFeatures, ClientsLearnThatAPromptIsTooLong) {
  std::string text;
  for (int i = 0; i < 3; ++i) text += long_text() + long_text() + long_text();
  while (text.size() < 400'000) text += text;
  const auto error = [&](const char* path, const Json& body) {
    const HttpReply reply = server_->post(path, body);
    EXPECT_EQ(reply.status, 400) << path;
    EXPECT_EQ(reply.head.find("Retry-After"), std::string::npos);
    return Json::parse(reply.body)["error"];
  };
  const Json messages = {{{"role", "user"}, {"content", text}}};
  const Json anthropic = error("/v1/messages", {{"max_tokens", 4}, {"messages", messages}});
  EXPECT_EQ(anthropic["type"], "invalid_request_error");
  int tokens = 0, maximum = 0;
  ASSERT_EQ(std::sscanf(anthropic["message"].get<std::string>().c_str(),
                        "prompt is too long: %d tokens > %d maximum", &tokens, &maximum),
            2)
      << anthropic;
  EXPECT_GT(tokens, maximum);
  Json input = respond(text), prompt = {{"prompt", text}, {"max_tokens", 1}};
  const std::vector<std::tuple<const char*, Json, const char*>> others = {
      {"/v1/chat/completions", chat(text), "messages"},
      {"/v1/completions", prompt, "prompt"},
      {"/v1/responses", input, "input"}};
  for (const auto& [path, body, param] : others) {
    const Json refused = error(path, body);
    EXPECT_EQ(refused["code"], "context_length_exceeded");
    EXPECT_EQ(refused["param"], param);
    const std::string sentence = refused["message"];
    EXPECT_NE(sentence.find(fmt::format("This model's maximum context length is {} tokens.", maximum + 1)),
              std::string::npos)
        << sentence;
  }
}

TEST_F(ClientFeatures, AToolOfAGroupIsCalledInTheGroupsForm) {
  Json request = respond("Read it.");
  request["tools"] = {{{"type", "namespace"},
                       {"name", "mcp__files__"},
                       {"description", "Files."},
                       {"tools", {{{"type", "function"}, {"name", "read"}}}}}};
  request["tool_choice"] = "required";
  request["parallel_tool_calls"] = false;
  request["max_output_tokens"] = 200;
  const Json call = server_->ask("/v1/responses", request)["output"].back();
  EXPECT_EQ(call["type"], "function_call");
  EXPECT_EQ(call["name"], "read");
  EXPECT_EQ(call["namespace"], "mcp__files__");
  const std::string events = stream(*server_, "/v1/responses", request);
  EXPECT_NE(events.find(R"("name":"read","arguments":"","namespace":"mcp__files__")"), std::string::npos)
      << events;
  request["tool_choice"] = "auto";
  request["input"] = {{{"role", "user"}, {"content", "Read it."}},
                      call,
                      {{"type", "function_call_output"}, {"call_id", call["call_id"]}, {"output", "text"}}};
  EXPECT_EQ(server_->post("/v1/responses", request).status, 200);
}

TEST_F(ClientFeatures, OlderFunctionsAreCalledInTheirForm) {
  Json request = chat("Weather in Rome?");
  request["functions"] = {{{"name", "weather"},
                           {"parameters",
                            {{"type", "object"},
                             {"properties", {{"sunny", {{"type", "boolean"}}}}},
                             {"required", {"sunny"}},
                             {"additionalProperties", false}}}}};
  request["function_call"] = {{"name", "weather"}};
  request["max_tokens"] = 200;
  request["temperature"] = 0;
  const Json choice = server_->ask("/v1/chat/completions", request)["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "function_call");
  EXPECT_FALSE(choice["message"].contains("tool_calls"));
  const Json call = choice["message"]["function_call"];
  EXPECT_EQ(call["name"], "weather");
  EXPECT_TRUE(Json::parse(call["arguments"].get<std::string>())["sunny"].is_boolean()) << call;
  const std::string events = stream(*server_, "/v1/chat/completions", request);
  EXPECT_NE(events.find(R"("function_call":{"name":"weather","arguments":""})"), std::string::npos) << events;
  EXPECT_NE(events.find(R"("finish_reason":"function_call")"), std::string::npos) << events;
  EXPECT_EQ(events.find("tool_calls"), std::string::npos) << events;
  request.erase("function_call");
  request["messages"] = {{{"role", "user"}, {"content", "Weather in Rome?"}},
                         {{"role", "assistant"}, {"content", nullptr}, {"function_call", call}},
                         {{"role", "function"}, {"name", "weather"}, {"content", "rain"}}};
  EXPECT_EQ(server_->post("/v1/chat/completions", request).status, 200);
}

TEST_F(ClientFeatures, ManyMembersOfAnObjectAreReadInOnePass) {
  // Five minutes where each member is looked for among those before it.
  std::string members;
  for (int i = 0; i < 300'000; ++i) members += fmt::format("\"m{}\":0,", i);
  const std::string message = "{" + members + R"("role": "user", "content": "hi"})";
  for (const char* path : {"/tokenize", "/v1/messages/count_tokens"}) {
    EXPECT_EQ(test::http_request(server_->port(), "POST", path, R"({"messages": [)" + message + "]}").status,
              200);
  }
  EXPECT_EQ(
      test::http_request(server_->port(), "POST", "/tokenize", "{" + members + R"("prompt": "hi"})").status,
      200);
  EXPECT_EQ(
      test::http_request(server_->port(), "POST", "/detokenize", "{" + members + R"("tokens": [5]})").status,
      200);
}

TEST_F(ClientFeatures, ErrorsDoNotRepeatWhatWasSentAtLength) {
  const std::string name(100'000, 'a');
  Json request = chat("hi");
  request["response_format"] = {
      {"type", "json_schema"},
      {"json_schema",
       {{"name", "s"},
        {"schema", {{"type", "object"}, {"properties", {{name, {{"$ref", "#/nothing/" + name}}}}}}}}}};
  const HttpReply reply = server_->post("/v1/chat/completions", request);
  EXPECT_EQ(reply.status, 400);
  EXPECT_LT(reply.body.size(), 4000u);
}

TEST_F(ClientFeatures, EveryAnswerHasItsRequestId) {
  const HttpReply own = server_->post("/v1/chat/completions", chat("hi"), {{"X-Request-Id", "mine-1"}});
  EXPECT_NE(own.head.find("x-request-id: mine-1"), std::string::npos) << own.head;
  EXPECT_NE(own.head.find("Date: "), std::string::npos) << own.head;
  const HttpReply forged = server_->post("/v1/messages", {{"max_tokens", 1}}, {{"request-id", "a b\"<"}});
  const std::string id = Json::parse(forged.body)["request_id"];
  EXPECT_TRUE(id.starts_with("req_")) << id;
  EXPECT_NE(forged.head.find("request-id: " + id), std::string::npos) << forged.head;
}

TEST_F(ClientFeatures, WhatIsPassedOverIsNamed) {
  Json request = respond("hi");
  request["tools"] = {{{"type", "web_search"}}, {{"type", "function"}, {"name", "f"}}};
  request["max_tokns"] = 3;
  const HttpReply reply = server_->post("/v1/responses", request);
  EXPECT_EQ(reply.status, 200) << reply.body;
  EXPECT_NE(reply.head.find("x-baleen-ignored: max_tokns, tools[0] (web_search)"), std::string::npos)
      << reply.head;
  EXPECT_EQ(Json::parse(reply.body)["tools"].size(), 1u);
}

TEST(KeepAlive, FillsTheSilenceOfALongPrompt) {
  RunningServerOptions options;
  options.server.keep_alive_seconds = 0.001;
  RunningServer server(std::move(options));
  EXPECT_NE(stream(server, "/v1/chat/completions", chat(long_text())).find("\n: keep-alive\n"),
            std::string::npos);
  const Json message = {{"max_tokens", 1},
                        {"messages", {{{"role", "user"}, {"content", "A " + long_text()}}}}};
  const std::string events = stream(server, "/v1/messages", message);
  EXPECT_NE(events.find("event: ping", events.find("event: ping") + 1), std::string::npos) << events;
}

TEST_F(ClientFeatures, ProgressForThoseWhoWantIt) {
  Json request = chat("B " + long_text());
  EXPECT_EQ(stream(*server_, "/v1/chat/completions", request).find("prefilled_tokens"), std::string::npos);
  request = chat("C " + long_text());
  request["stream_options"] = {{"include_progress", true}};
  EXPECT_NE(stream(*server_, "/v1/chat/completions", request).find("\"progress\":{\"prefilled_tokens\":"),
            std::string::npos);
}

TEST_F(ClientFeatures, ChoicesAndPatternsAreEnforced) {
  Json request = chat("Yes or no?");
  request["guided_choice"] = {"yes (sure)", "no"};
  request["max_tokens"] = 40;
  const std::string text = server_->ask("/v1/chat/completions", request)["choices"][0]["message"]["content"];
  EXPECT_TRUE(text == "yes (sure)" || text == "no") << text;
  request.erase("guided_choice");
  request["guided_regex"] = "[ab]{3}";
  const std::string letters =
      server_->ask("/v1/chat/completions", request)["choices"][0]["message"]["content"];
  EXPECT_EQ(letters.size(), 3u);
  EXPECT_EQ(letters.find_first_not_of("ab"), std::string::npos) << letters;
}

TEST(ManyReplies, BeyondTheQueueAreRefusedForGood) {
  RunningServerOptions options;
  options.scheduler.max_queue = 4;
  RunningServer server(std::move(options));
  Json request = chat("hi");
  request["n"] = 5;
  EXPECT_EQ(server.post("/v1/chat/completions", request).status, 400);
  EXPECT_EQ(server.post("/v1/completions", {{"prompt", {"a", "b", "c"}}, {"n", 2}, {"max_tokens", 1}}).status,
            400);
}

TEST_F(ClientFeatures, LogprobsAreThoseOfTheContent) {
  Json request = chat("Weather in Rome?");
  request["max_tokens"] = 100;
  request["logprobs"] = true;
  request["tools"] = {
      {{"type", "function"},
       {"function",
        {{"name", "f"},
         {"parameters",
          {{"type", "object"}, {"properties", {{"a", {{"type", "boolean"}}}}}, {"required", {"a"}}}}}}}};
  request["tool_choice"] = "required";
  const Json choice = server_->ask("/v1/chat/completions", request)["choices"][0];
  EXPECT_EQ(choice["message"]["tool_calls"].size(), 1u) << choice;
  for (const Json& token : choice["logprobs"]["content"]) {
    EXPECT_EQ(token["token"].get<std::string>().find("DSML"), std::string::npos) << choice["logprobs"];
  }
}

}  // namespace
}  // namespace baleen
