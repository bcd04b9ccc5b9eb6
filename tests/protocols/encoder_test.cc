// What goldens do not show: several choices, hidden reasoning, failures, usage, what a response repeats.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "protocols/sealed_text.h"
#include "request_cases.h"
#include "sample_reply.h"

namespace baleen {
namespace {

using Json = nlohmann::json;

TEST(Encoder, CallIdsArePlainAndDiffer) {
  EXPECT_EQ(tool_call_id(kChatCompletionsApi, sample_identity(), 1, 2), "call_8f3a_1_2");
  EXPECT_EQ(tool_call_id(kMessagesApi, sample_identity(), 0, 0), "toolu_8f3a_0_0");
}

TEST(Encoder, ChoicesAreKeptApart) {
  ApiRequest request;
  request.num_choices = 2;
  const auto encoder = make_encoder(request, sample_identity(), {});
  EXPECT_EQ(encoder->parts(1, {content("b")}, {}), "");
  EXPECT_EQ(encoder->parts(0, {content("a")}, {}), "");
  EXPECT_EQ(encoder->choice_finished(1, ReplyEnd::kLength, ""), "");
  EXPECT_EQ(encoder->choice_finished(0, ReplyEnd::kStopToken, ""), "");
  const Json body = Json::parse(encoder->finish({}));
  EXPECT_EQ(body["choices"][0]["message"]["content"], "a");
  EXPECT_EQ(body["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(body["choices"][1]["index"], 1);
  EXPECT_EQ(body["choices"][1]["message"]["content"], "b");
  EXPECT_EQ(body["choices"][1]["finish_reason"], "length");
}

TEST(Encoder, CompletionsNumberChoicesThroughAllPrompts) {
  ApiRequest request{.protocol = &kCompletionsApi, .prompts = {"p", "q"}, .num_choices = 2};
  const auto encoder = make_encoder(request, sample_identity(), {});
  EXPECT_EQ(encoder->parts(3, {content("d")}, {}), "");
  const Json body = Json::parse(encoder->finish({}));
  ASSERT_EQ(body["choices"].size(), 4u);
  EXPECT_EQ(body["choices"][3]["text"], "d");
}

TEST(Encoder, HiddenReasoning) {
  const std::vector<Piece> pieces = {{{reasoning("secret"), content("a")}, {}}};
  for (const bool stream : {true, false}) {
    for (const Protocol* api : {&kChatCompletionsApi, &kResponsesApi, &kMessagesApi}) {
      ApiRequest request{.protocol = api, .stream = stream};
      request.show_reasoning = false;
      EXPECT_EQ(encoded(request, pieces, ReplyEnd::kStopToken).find("secret"), std::string::npos);
    }
  }
  // This protocol keeps the block, with its signature, so that the client can send it back.
  ApiRequest request{.protocol = &kMessagesApi};
  request.show_reasoning = false;
  const Json body = Json::parse(encoded(request, pieces, ReplyEnd::kStopToken));
  EXPECT_EQ(body["content"][0]["type"], "thinking");
  EXPECT_EQ(body["content"][0]["thinking"], "");
  EXPECT_NE(body["content"][0]["signature"], "");
}

TEST(Encoder, Failures) {
  const ApiError error{.status = 500, .type = "server_error", .message = "broke"};
  for (const Protocol* api : {&kChatCompletionsApi, &kCompletionsApi, &kResponsesApi, &kMessagesApi}) {
    EXPECT_EQ(make_encoder({.protocol = api}, sample_identity(), {})->failed(error), error_body(*api, error));
  }
  const auto failed = [&](const Protocol* api) {
    const auto encoder = make_encoder({.protocol = api, .stream = true}, sample_identity(), {});
    (void)encoder->begin();
    return encoder->failed(error);
  };
  EXPECT_EQ(failed(&kChatCompletionsApi),
            "data: " + error_body(kChatCompletionsApi, error) + "\n\ndata: [DONE]\n\n");
  EXPECT_EQ(failed(&kMessagesApi), "event: error\ndata: " + error_body(kMessagesApi, error) + "\n\n");
  const std::string event = failed(&kResponsesApi);
  ASSERT_TRUE(event.starts_with("event: response.failed\ndata: {")) << event;
  const Json data = Json::parse(event.substr(event.find('{')));
  EXPECT_EQ(data["sequence_number"], 2);
  EXPECT_EQ(data["response"]["status"], "failed");
  EXPECT_EQ(data["response"]["error"]["message"], "broke");
}

TEST(Encoder, NoUsageUnlessAskedFor) {
  const std::string stream = encoded({.stream = true}, {{{content("a")}, {}}}, ReplyEnd::kStopToken);
  EXPECT_EQ(stream.find("usage"), std::string::npos);
  EXPECT_TRUE(stream.ends_with("data: [DONE]\n\n"));
}

TEST(Encoder, AResponseRepeatsItsRequest) {
  const ApiRequest request = accepted(parse_responses, R"({"model": "m", "input": "x", "instructions": "i",
    "tools": [{"type": "function", "name": "f", "parameters": {"z": 1, "a": NaN}, "strict": true}],
    "tool_choice": "required", "metadata": {"k": "v"}, "temperature": 0.5, "store": true,
    "text": {"verbosity": "low"}, "reasoning": {"effort": "low"}})");
  const nlohmann::ordered_json body =
      nlohmann::ordered_json::parse(encoded(request, {}, ReplyEnd::kStopToken));
  EXPECT_EQ(body["instructions"], "i");
  EXPECT_EQ(body["tools"][0]["parameters"].dump(), R"({"z":1,"a":null})");
  EXPECT_EQ(body["tool_choice"], "required");
  EXPECT_EQ(body["metadata"]["k"], "v");
  EXPECT_EQ(body["temperature"], 0.5);
  EXPECT_EQ(body["store"], false);
  EXPECT_EQ(body["text"].dump(), R"({"verbosity":"low","format":{"type":"text"}})");
  EXPECT_EQ(body["reasoning"]["effort"], "low");
  EXPECT_EQ(body["output"].size(), 0u);
}

TEST(Encoder, AnItemCutByTheLimitIsIncomplete) {
  const Json body =
      Json::parse(encoded({.protocol = &kResponsesApi}, {{{content("a")}, {}}}, ReplyEnd::kLength));
  EXPECT_EQ(body["status"], "incomplete");
  EXPECT_EQ(body["incomplete_details"]["reason"], "max_output_tokens");
  EXPECT_EQ(body["output"][0]["status"], "incomplete");
}

TEST(Encoder, AMessageThatAStopStringEndedHasAText) {
  for (const std::vector<Piece>& pieces :
       {std::vector<Piece>{{{reasoning("so")}, {}}}, std::vector<Piece>{}, {{{content("a")}, {}}}}) {
    const Json body = Json::parse(encoded({.protocol = &kMessagesApi}, pieces, ReplyEnd::kStopString, "END"));
    EXPECT_EQ(body["stop_reason"], "stop_sequence");
    EXPECT_EQ(body["stop_sequence"], "END");
    EXPECT_EQ(body["content"].back()["type"], "text") << body;
  }
}

TEST(Encoder, SeparatorsOfLinesAreEscapedInEveryEvent) {
  const std::string text = "a\u0085b\u2028c\u2029d\u2027\u00A0";
  const std::vector<Piece> pieces = {{{reasoning(text), content(text), call_begin(0, "f"),
                                       call_arguments(0, "{\"k\": \"" + text + "\"}"), call_end(0)},
                                      {}}};
  for (const bool stream : {true, false}) {
    for (const Protocol* api : {&kChatCompletionsApi, &kCompletionsApi, &kResponsesApi, &kMessagesApi}) {
      const std::string sent =
          encoded({.protocol = api, .prompts = {"p"}, .stream = stream}, pieces, ReplyEnd::kStopToken, text);
      for (const char* separator : {"\u0085", "\u2028", "\u2029"})
        EXPECT_EQ(sent.find(separator), std::string::npos) << sent;
      EXPECT_NE(sent.find("a\\u0085b\\u2028c\\u2029d\u2027\u00A0"), std::string::npos) << sent;
    }
  }
  EXPECT_EQ(error_body(kChatCompletionsApi, {.message = text}).find("\u2028"), std::string::npos);
}

TEST(Encoder, LogprobsStayFinite) {
  ApiRequest request;
  request.logprobs = true;
  const double infinity = std::numeric_limits<double>::infinity();
  const std::vector<Piece> pieces = {
      {{content("ab")}, {{.token = {"a", -infinity}, .top = {}}, {.token = {"b", std::nan("")}, .top = {}}}}};
  const Json body = Json::parse(encoded(request, pieces, ReplyEnd::kStopToken));
  EXPECT_EQ(body["choices"][0]["logprobs"]["content"][0]["logprob"], -9999);
  EXPECT_EQ(body["choices"][0]["logprobs"]["content"][1]["logprob"], -9999);
}

TEST(Encoder, NoCitationsWhereThereAreNone) {
  // The AI SDK's Anthropic provider refuses a reply whose citations are null.
  for (const bool stream : {true, false}) {
    const std::string sent =
        encoded({.protocol = &kMessagesApi, .stream = stream}, {{{content("a")}, {}}}, ReplyEnd::kStopToken);
    EXPECT_EQ(sent.find("citations"), std::string::npos) << sent;
  }
}

TEST(Encoder, SilenceIsFilledByProtocol) {
  for (const Protocol* api : {&kChatCompletionsApi, &kCompletionsApi, &kResponsesApi}) {
    EXPECT_TRUE(make_encoder({.protocol = api, .stream = true}, sample_identity(), {})
                    ->keep_alive()
                    .starts_with(":"));
  }
  EXPECT_EQ(make_encoder({.protocol = &kMessagesApi, .stream = true}, sample_identity(), {})->keep_alive(),
            "event: ping\ndata: {\"type\":\"ping\"}\n\n");
}

TEST(Encoder, ReasoningIsSealedAndSummarised) {
  ApiRequest request{.protocol = &kResponsesApi};
  request.keeping.seal_reasoning = true;
  request.client_key = "k";
  const std::vector<Piece> pieces = {{{reasoning("because"), content("a")}, {}}};
  Json item = Json::parse(encoded(request, pieces, ReplyEnd::kStopToken))["output"][0];
  EXPECT_EQ(open_sealed_text(item["encrypted_content"].get<std::string>(), "k"), "because");
  EXPECT_EQ(item["content"][0]["text"], "because");
  request.keeping = {.summarise_reasoning = true};
  item = Json::parse(encoded(request, pieces, ReplyEnd::kStopToken))["output"][0];
  EXPECT_EQ(item["summary"][0]["text"], "because");
  EXPECT_EQ(item["content"].size(), 0u);
  EXPECT_TRUE(item["encrypted_content"].is_null());
  request.stream = true;
  const std::string events = encoded(request, pieces, ReplyEnd::kStopToken);
  for (const char* name : {"response.reasoning_summary_part.added", "response.reasoning_summary_text.delta",
                           "response.reasoning_summary_text.done", "response.reasoning_summary_part.done"}) {
    EXPECT_NE(events.find(std::string("event: ") + name), std::string::npos) << name;
  }
  EXPECT_EQ(events.find("response.reasoning_text"), std::string::npos);
}

TEST(Encoder, UsageNamesTheCacheAsDeepSeekDoes) {
  const Json usage = Json::parse(encoded({}, {{{content("a")}, {}}}, ReplyEnd::kStopToken))["usage"];
  EXPECT_EQ(usage["prompt_cache_hit_tokens"], 4);
  EXPECT_EQ(usage["prompt_cache_miss_tokens"], 6);
}

}  // namespace
}  // namespace baleen
