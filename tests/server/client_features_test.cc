// What clients of the public APIs rely on beside a plain reply: kept responses, likelihoods of prompts,
// request ids, paths without their version, keep-alives, progress.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

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
