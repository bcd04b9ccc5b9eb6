// Requests made anew by mutation, against the whole server: whatever comes in, each gets an answer of its
// protocol.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "tests/server/running_server.h"

namespace baleen {
namespace {

using Json = nlohmann::json;
using Random = std::mt19937;
using test::HttpReply;
using test::RunningServer;

std::size_t below(Random& random, std::size_t n) { return random() % n; }

/// Values of every type, edges of ranges, words that protocols use elsewhere.
Json strange_value(Random& random) {
  static const std::vector<Json> kValues = {nullptr,
                                            true,
                                            false,
                                            0,
                                            1,
                                            -1,
                                            2.5,
                                            -0.0,
                                            1e300,
                                            9223372036854775807,
                                            18446744073709551615ULL,
                                            "",
                                            "x",
                                            "auto",
                                            "none",
                                            "required",
                                            "function",
                                            "user",
                                            "assistant",
                                            "system",
                                            "tool",
                                            "text",
                                            "json_schema",
                                            "\xEF\xBF\xBD",
                                            "</think>",
                                            "<｜DSML｜tool_calls>",
                                            Json::array(),
                                            Json::object(),
                                            Json::array({nullptr}),
                                            Json::array({1, "a", {}}),
                                            Json{{"type", "text"}},
                                            Json{{"type", "function"}, {"name", "f"}},
                                            Json{{"type", "item_reference"}, {"id", "msg_0_0"}},
                                            Json{{"type", "reasoning"}, {"encrypted_content", "AAAA"}},
                                            Json{{"$ref", "#"}},
                                            Json{{"multipleOf", 0.3}},
                                            Json{{"pattern", "^(a|b)*\\b"}}};
  Json value = kValues[below(random, kValues.size())];
  if (below(random, 20) == 0) {
    for (std::size_t depth = below(random, 60); depth > 0; --depth) value = Json::array({value});
  }
  return value;
}

/// All values inside, the body itself first.
void collect(Json& json, std::vector<Json*>& all) {
  all.push_back(&json);
  if (!json.is_structured()) return;
  for (Json& inner : json) collect(inner, all);
}

void mutate(Json& body, Random& random) {
  std::vector<Json*> all;
  collect(body, all);
  Json& place = *all[below(random, all.size())];
  switch (below(random, 5)) {
    case 0:
      if (&place != &body) place = strange_value(random);
      break;
    case 1:
      if (place.is_object() && !place.empty()) {
        auto member = place.begin();
        std::advance(member, below(random, place.size()));
        place.erase(member);
      }
      break;
    case 2:
      if (place.is_object()) place["zz" + std::to_string(below(random, 9))] = strange_value(random);
      break;
    case 3:
      if (place.is_array()) place.push_back(strange_value(random));
      break;
    default: {
      const Json copy = *all[below(random, all.size())];
      if (place.is_array() && place.size() < 50) place.push_back(copy);
      if (!place.is_structured()) place = copy;
    }
  }
}

struct Target {
  std::string path;
  std::vector<Json> bodies;
};

std::vector<Target> targets() {
  const Json user = {{"role", "user"}, {"content", "hi"}};
  const Json parameters = {{"type", "object"},
                           {"properties", {{"a", {{"type", "integer"}, {"multipleOf", 3}}}}}};
  const Json call = {
      {"id", "c"}, {"type", "function"}, {"function", {{"name", "f"}, {"arguments", "{\"a\": 3}"}}}};
  const Json tool = {{"type", "function"}, {"function", {{"name", "f"}, {"parameters", parameters}}}};
  return {
      {"/v1/chat/completions",
       {{{"messages", {user}},
         {"max_tokens", 2},
         {"n", 2},
         {"stop", {"a"}},
         {"logprobs", true},
         {"top_logprobs", 2}},
        {{"messages",
          {{{"role", "system"}, {"content", "s"}},
           user,
           {{"role", "assistant"}, {"tool_calls", {call}}},
           {{"role", "tool"}, {"tool_call_id", "c"}, {"content", "r"}}}},
         {"tools", {tool}},
         {"tool_choice", "auto"},
         {"max_tokens", 2},
         {"chat_template_kwargs", {{"thinking", true}}},
         {"stream", true},
         {"stream_options", {{"include_usage", true}, {"include_progress", true}}}},
        {{"messages", {user}}, {"max_tokens", 2}, {"guided_choice", {"a", "b"}}},
        {{"messages", {user}},
         {"max_tokens", 2},
         {"response_format", {{"type", "json_object"}, {"schema", parameters}}}}}},
      {"/v1/completions",
       {{{"prompt", "The fox"}, {"max_tokens", 0}, {"echo", true}, {"logprobs", 1}},
        {{"prompt", {{1, 2, 3}, {4}}}, {"max_tokens", 2}, {"logit_bias", {{"5", 1}}}, {"seed", 1}}}},
      {"/v1/responses",
       {{{"input", "hi"}, {"max_output_tokens", 2}, {"reasoning", {{"effort", "low"}, {"summary", "auto"}}}},
        {{"input",
          {{{"type", "message"}, {"role", "user"}, {"content", {{{"type", "input_text"}, {"text", "hi"}}}}},
           {{"type", "function_call"}, {"call_id", "c"}, {"name", "f"}, {"arguments", "{}"}},
           {{"type", "function_call_output"}, {"call_id", "c"}, {"output", "o"}}}},
         {"tools",
          {{{"type", "function"}, {"name", "f"}, {"parameters", parameters}}, {{"type", "web_search"}}}},
         {"include", {"reasoning.encrypted_content"}},
         {"store", false},
         {"stream", true},
         {"max_output_tokens", 2}}}},
      {"/v1/messages",
       {{{"max_tokens", 2}, {"messages", {user}}, {"system", "s"}, {"stream", true}},
        {{"max_tokens", 2},
         {"thinking", {{"type", "enabled"}, {"budget_tokens", 9}}},
         {"tools", {{{"name", "f"}, {"input_schema", parameters}}}},
         {"messages",
          {user,
           {{"role", "assistant"},
            {"content", {{{"type", "tool_use"}, {"id", "t"}, {"name", "f"}, {"input", {{"a", 3}}}}}}},
           {{"role", "user"},
            {"content", {{{"type", "tool_result"}, {"tool_use_id", "t"}, {"content", "r"}}}}}}}}}}};
}

void expect_answer(const Target& target, const std::string& body, const HttpReply& reply) {
  ASSERT_TRUE(reply.status == 200 || (reply.status >= 400 && reply.status < 500))
      << reply.status << " for " << target.path << ' ' << body << '\n'
      << reply.body;
  if (reply.status == 200) return;
  const Json json = Json::parse(reply.body, nullptr, false);
  ASSERT_TRUE(json.is_object() && json.contains("error")) << body << '\n' << reply.body;
  if (target.path == "/v1/messages") {
    EXPECT_EQ(json["type"], "error");
  } else {
    EXPECT_TRUE(json["error"].contains("param") && json["error"].contains("code"));
  }
  EXPECT_TRUE(json["error"]["type"].is_string());
  EXPECT_GT(json["error"]["message"].get<std::string>().size(), 10u) << reply.body;
}

TEST(MutatedRequests, EachGetsAnAnswerOfItsProtocol) {
  constexpr int kRequestsOfEachBody = 40;
  Random random(20261122);
  RunningServer server;
  for (const Target& target : targets()) {
    for (const Json& base : target.bodies) {
      for (int i = 0; i < kRequestsOfEachBody; ++i) {
        Json body = base;
        for (std::size_t count = below(random, 4); count > 0; --count) mutate(body, random);
        // Replies stay short whatever became of the limit.
        const char* limit = target.path == "/v1/responses" ? "max_output_tokens" : "max_tokens";
        if (!body.contains(limit) || body[limit].is_null() || (body[limit].is_number() && body[limit] > 2))
          body[limit] = 2;
        if (body.contains("max_completion_tokens")) body.erase("max_completion_tokens");
        const std::string text = body.dump(-1, ' ', false, Json::error_handler_t::replace);
        expect_answer(target, text, test::http_request(server.port(), "POST", target.path, text));
        if (HasFatalFailure()) return;
      }
    }
  }
  EXPECT_EQ(server.get("/health").status, 200);
  EXPECT_EQ(server.stats()["scheduler"]["failed"], 0);
}

}  // namespace
}  // namespace baleen
