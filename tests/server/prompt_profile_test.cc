// Efforts as clients ask for them, through the server: what /v1/models says of a profile is what prompts are,
// in every protocol.
#include <gtest/gtest.h>

#include "chat/format.h"
#include "running_server.h"

namespace baleen {
namespace {

using Json = nlohmann::json;
using test::RunningServer;
using test::RunningServerOptions;

constexpr const char* kQuestion = "Who ran?";

Json question() { return Json::array({{{"role", "user"}, {"content", kQuestion}}}); }

/// The prompt of the question with the effort `name` of a profile; "none": without thinking.
std::string prompt_of(PromptProfile profile, const std::string& name) {
  const std::string begin(chat_format::kBos), turn = "<｜User｜>Who ran?<｜Assistant｜>";
  if (name == "none") return begin + turn + "</think>";
  return begin + std::string(prompt_rules(profile).system_token) + effort_text(profile, name).value() + turn +
         "<think>";
}

class PromptProfiles : public testing::TestWithParam<PromptProfile> {
 protected:
  PromptProfiles() : server_({.prompt_profile = GetParam()}), tokenizer_(Tokenizer::load("models/stories")) {}

  Json listed() { return Json::parse(server_.get("/v1/models/stories").body); }
  /// The prompt that a body of chat completions becomes.
  std::string prompt(Json body) {
    if (!body.contains("messages")) body["messages"] = question();
    return tokenizer_.decode(server_.ask("/tokenize", body)["tokens"].get<std::vector<TokenId>>());
  }
  std::int64_t num_tokens(const std::string& prompt) { return std::ssize(tokenizer_.encode(prompt).value()); }

  RunningServer server_;
  Tokenizer tokenizer_;
};
INSTANTIATE_TEST_SUITE_P(Profiles, PromptProfiles,
                         testing::Values(PromptProfile::kPreview, PromptProfile::kOfficial,
                                         PromptProfile::kV41),
                         [](const auto& test) {
                           const std::string name(prompt_profile_name(test.param));
                           return name == "v4.1" ? "v41" : name;
                         });

TEST_P(PromptProfiles, TheListOfModelsHasItsEfforts) {
  const Json model = listed(), reasoning = model["reasoning"];
  const bool official = GetParam() != PromptProfile::kPreview, v41 = GetParam() == PromptProfile::kV41;
  EXPECT_EQ(model["prompt_profile"], prompt_profile_name(GetParam()));
  EXPECT_EQ(reasoning.contains("effort_numbers"), v41);
  if (v41) {
    EXPECT_EQ(reasoning["effort_numbers"], Json({{"low", 50}, {"high", 75}, {"max", 100}}));
    EXPECT_EQ(reasoning["effort_range"], Json({1, 100}));
    EXPECT_EQ(model["recommended_sampling"]["top_p"], 0.95);
  }
  EXPECT_EQ(reasoning["supported_efforts"],
            official ? Json({"none", "low", "high", "max"}) : Json({"none", "high", "max"}));
  EXPECT_EQ(reasoning["default_effort"], "high");
  EXPECT_EQ(reasoning["default_enabled"], false);
  EXPECT_EQ(reasoning["effort_mapping"]["xhigh"], official ? "high" : "max");
  EXPECT_EQ(reasoning["effort_mapping"]["minimal"], official ? "low" : "none");
  EXPECT_EQ(model["recommended_sampling"]["agentic_top_p"], official ? 0.95 : 1.0);
  EXPECT_EQ(Json::parse(server_.get("/v1/models").body)["data"][0], model);
}

TEST_P(PromptProfiles, EveryWordMeansInEveryProtocolWhatTheListSays) {
  const Json mapping = listed()["reasoning"]["effort_mapping"];
  ASSERT_EQ(mapping.size(), 8u);
  for (const auto& [word, effort] : mapping.items()) {
    const std::string want = prompt_of(GetParam(), effort);
    EXPECT_EQ(prompt({{"reasoning_effort", word}}), want) << word;
    EXPECT_EQ(prompt({{"reasoning", {{"effort", word}}}}), want) << word;
    EXPECT_EQ(prompt({{"chat_template_kwargs", {{"reasoning_effort", word}}}}), want) << word;
    const Json response = server_.ask("/v1/responses", {{"model", "stories"},
                                                        {"input", kQuestion},
                                                        {"reasoning", {{"effort", word}}},
                                                        {"max_output_tokens", 1}});
    EXPECT_EQ(response["usage"]["input_tokens"], num_tokens(want)) << word;
    if (effort == "none") continue;
    const Json counted = server_.ask("/v1/messages/count_tokens", {{"model", "stories"},
                                                                   {"messages", question()},
                                                                   {"thinking", {{"type", "adaptive"}}},
                                                                   {"output_config", {{"effort", word}}}});
    EXPECT_EQ(counted["input_tokens"], num_tokens(want)) << word;
  }
}

TEST_P(PromptProfiles, AThinkingReplyWithoutAnEffortHasTheApisDefault) {
  EXPECT_EQ(prompt(Json::object()), prompt_of(GetParam(), "none"));
  EXPECT_EQ(prompt({{"thinking", {{"type", "enabled"}}}}), prompt_of(GetParam(), "high"));
  EXPECT_EQ(prompt({{"thinking", {{"type", "disabled"}}}, {"reasoning_effort", "max"}}),
            prompt_of(GetParam(), "none"));
  RunningServer thinks({.prompt_profile = GetParam(), .think_by_default = true});
  const Json tokens = thinks.ask("/tokenize", {{"messages", question()}})["tokens"];
  EXPECT_EQ(tokenizer_.decode(tokens.get<std::vector<TokenId>>()), prompt_of(GetParam(), "high"));
  const Json model = Json::parse(thinks.get("/v1/models/stories").body);
  EXPECT_EQ(model["reasoning"]["default_enabled"], true);
}

TEST_P(PromptProfiles, AWordThatNoApiHasIsRefusedWithThoseThatThereAre) {
  const std::pair<const char*, Json> kRequests[] = {
      {"/v1/chat/completions", {{"messages", question()}, {"reasoning_effort", "huge"}}},
      {"/v1/responses", {{"input", kQuestion}, {"reasoning", {{"effort", "huge"}}}}},
      {"/v1/messages",
       {{"max_tokens", 1}, {"messages", question()}, {"output_config", {{"effort", "huge"}}}}}};
  for (auto [path, body] : kRequests) {
    body["model"] = "stories";
    const test::HttpReply reply = server_.post(path, body);
    EXPECT_EQ(reply.status, 400) << path;
    EXPECT_NE(reply.body.find(
                  GetParam() == PromptProfile::kV41
                      ? "effort: expected none, minimal, low, medium, high, xhigh, max or ultra, or a "
                        "number from 1 to 100, found"
                      : "effort: expected none, minimal, low, medium, high, xhigh, max or ultra, found"),
              std::string::npos)
        << path << reply.body;
  }
}

/// `developer` is what OpenAI's newer clients call the system, in whatever protocol.
TEST_P(PromptProfiles, ADeveloperIsTheSystem) {
  const auto led_by = [](const char* role) {
    return Json::array({{{"role", role}, {"content", "Be brief."}}, {{"role", "user"}, {"content", "u"}}});
  };
  EXPECT_EQ(prompt({{"messages", led_by("developer")}}), prompt({{"messages", led_by("system")}}));
  const auto counted = [&](const char* role) {
    return server_.ask("/v1/messages/count_tokens", {{"model", "stories"}, {"messages", led_by(role)}});
  };
  EXPECT_EQ(counted("developer"), counted("system"));
  const auto answered = [&](const char* role) {
    return server_.ask(
        "/v1/responses",
        {{"model", "stories"}, {"input", led_by(role)}, {"max_output_tokens", 1}})["usage"]["input_tokens"];
  };
  EXPECT_EQ(answered("developer"), answered("system"));
}

/// Clients that keep no reasoning send turns without it, or with null: the encoder's turn of empty reasoning.
TEST_P(PromptProfiles, EarlierTurnsMayLackTheirReasoning) {
  const auto said = [this](const Json& assistant) {
    const Json messages = Json::array({{{"role", "user"}, {"content", "u"}},
                                       assistant,
                                       {{"role", "tool"}, {"tool_call_id", "c"}, {"content", "r"}}});
    const Json tool{{"type", "function"}, {"function", {{"name", "f"}}}};
    return prompt({{"messages", messages}, {"tools", {tool}}, {"reasoning_effort", "high"}});
  };
  Json assistant{{"role", "assistant"},
                 {"content", nullptr},
                 {"tool_calls",
                  {{{"id", "c"}, {"type", "function"}, {"function", {{"name", "f"}, {"arguments", "{}"}}}}}}};
  const std::string without = said(assistant);
  EXPECT_NE(without.find("<｜User｜>u<｜Assistant｜><think></think>" + call_tags(GetParam()).calls_opening),
            std::string::npos)
      << without;
  assistant["reasoning_content"] = nullptr;
  EXPECT_EQ(said(assistant), without);
  assistant["reasoning_content"] = "why";
  EXPECT_NE(said(assistant).find("<think>why</think>"), std::string::npos);
}

Json weather(const char* name = "weather") {
  return {{"type", "function"},
          {"function",
           {{"name", name},
            {"parameters",
             {{"type", "object"},
              {"properties", {{"city", {{"type", "string"}, {"maxLength", 8}}}}},
              {"required", {"city"}}}}}}};
}

/// The grammar writes in the profile's tags, and the reader reads them.
TEST_P(PromptProfiles, ARequiredCallIsMadeAndReadInTheProfilesTags) {
  const auto call_of = [&](const Json& choice, bool stream) {
    Json body{{"messages", question()}, {"tools", {weather(), weather("other")}},
              {"tool_choice", choice},  {"stream", stream},
              {"max_tokens", 300},      {"parallel_tool_calls", false},
              {"temperature", 0}};
    if (!stream) return server_.ask("/v1/chat/completions", body)["choices"][0];
    Json call{{"name", ""}, {"arguments", ""}};
    const std::string events = server_.post("/v1/chat/completions", body).body;
    for (std::size_t at = events.find("data: {"); at != std::string::npos;
         at = events.find("data: {", at + 1)) {
      const Json event = Json::parse(events.substr(at + 6, events.find("\n", at) - at - 6));
      const Json delta = event["choices"].empty() ? Json() : event["choices"][0]["delta"];
      if (!delta.is_object() || !delta.contains("tool_calls")) continue;
      const Json& function = delta["tool_calls"][0]["function"];
      call["name"] = call["name"].get<std::string>() + function.value("name", "");
      call["arguments"] = call["arguments"].get<std::string>() + function.value("arguments", "");
    }
    return call;
  };
  const Json named{{"type", "function"}, {"function", {{"name", "weather"}}}};
  const Json choice = call_of(named, false);
  EXPECT_EQ(choice["finish_reason"], "tool_calls") << choice;
  const Json function = choice["message"]["tool_calls"][0]["function"];
  EXPECT_EQ(function["name"], "weather");
  EXPECT_TRUE(Json::parse(function["arguments"].get<std::string>())["city"].is_string()) << choice;
  EXPECT_EQ(choice["message"]["content"], nullptr) << choice;
  EXPECT_EQ(call_of(named, true), function);
  EXPECT_EQ(call_of("required", false)["message"]["tool_calls"].size(), 1u);
}

/// What only V4.1's rules have, through the three protocols.
class V41Profile : public PromptProfiles {
 protected:
  std::string error_of(const char* path, Json body) {
    body["model"] = "stories";
    const test::HttpReply reply = server_.post(path, body);
    EXPECT_EQ(reply.status, 400) << reply.body;
    return reply.body;
  }
};
INSTANTIATE_TEST_SUITE_P(Profile, V41Profile, testing::Values(PromptProfile::kV41),
                         [](const auto&) { return "v41"; });

TEST_P(V41Profile, NumbersAreEffortsInEveryProtocol) {
  for (const int number : {1, 37, 100}) {
    const std::string want = prompt_of(GetParam(), std::to_string(number));
    EXPECT_EQ(prompt({{"reasoning_effort", number}}), want);
    EXPECT_EQ(prompt({{"reasoning_effort", std::to_string(number)}}), want);
    EXPECT_EQ(prompt({{"reasoning", {{"effort", number}}}}), want);
    EXPECT_EQ(prompt({{"chat_template_kwargs", {{"reasoning_effort", number}}}}), want);
    const Json response =
        server_.ask("/v1/responses",
                    {{"input", kQuestion}, {"reasoning", {{"effort", number}}}, {"max_output_tokens", 1}});
    EXPECT_EQ(response["usage"]["input_tokens"], num_tokens(want));
    const Json counted = server_.ask("/v1/messages/count_tokens", {{"messages", question()},
                                                                   {"thinking", {{"type", "adaptive"}}},
                                                                   {"output_config", {{"effort", number}}}});
    EXPECT_EQ(counted["input_tokens"], num_tokens(want));
  }
  for (const Json& wrong : {Json(0), Json(101), Json(-1), Json(7.5)}) {
    const std::string error =
        error_of("/v1/chat/completions", {{"messages", question()}, {"reasoning_effort", wrong}});
    EXPECT_NE(error.find("reasoning_effort: expected a whole number from 1 to 100"), std::string::npos)
        << error;
  }
  RunningServer other({.prompt_profile = PromptProfile::kOfficial});
  EXPECT_EQ(other.post("/v1/chat/completions", {{"messages", question()}, {"reasoning_effort", 37}}).status,
            400);
}

TEST_P(V41Profile, SystemMessagesStayWhereTheyAre) {
  const Json messages = Json::array({{{"role", "system"}, {"content", "s"}},
                                     {{"role", "developer"}, {"content", "d"}},
                                     {{"role", "user"}, {"content", "u"}},
                                     {{"role", "assistant"}, {"content", "a"}},
                                     {{"role", "system"}, {"content", "t"}}});
  EXPECT_EQ(prompt({{"messages", messages}}),
            "<｜begin▁of▁sentence｜><｜System｜>s<｜System｜>d<｜User｜>u<｜Assistant｜></think>a"
            "<｜end▁of▁sentence｜><｜System｜>t<｜Assistant｜></think>");
  // To a system message alone there is no reply in the format.
  EXPECT_EQ(prompt({{"messages", Json::array({messages[0]})}}),
            "<｜begin▁of▁sentence｜><｜User｜>s<｜Assistant｜></think>");
}

TEST_P(V41Profile, ToolsHaveNamespaces) {
  Json spaced = weather();
  spaced["namespace"] = {{"name", "crm"}, {"description", "Customers."}};
  const Json history = Json::array(
      {{{"role", "user"}, {"content", "u"}},
       {{"role", "assistant"},
        {"content", nullptr},
        {"tool_calls",
         {{{"id", "c"},
           {"type", "function"},
           {"namespace", "crm"},
           {"function", {{"name", "weather"}, {"arguments", Json("{\"city\": \"Rome\"}").dump()}}}}}}},
       {{"role", "tool"}, {"tool_call_id", "c"}, {"content", "r"}}});
  const std::string text = prompt({{"messages", history}, {"tools", {spaced, weather()}}});
  EXPECT_NE(text.find(R"({"name": "crm::weather", "parameters")"), std::string::npos) << text;
  EXPECT_NE(text.find(R"("description": "Customers.\n"})"), std::string::npos) << text;
  EXPECT_NE(text.find("<｜DSML｜ invoke name=\"crm::weather\">\n"
                      "<｜DSML｜ parameter name=\"city\" string=\"true\">Rome</｜DSML｜ parameter>\n"),
            std::string::npos)
      << text;
  const Json named{{"type", "function"}, {"namespace", "crm"}, {"function", {{"name", "weather"}}}};
  const Json reply = server_.ask("/v1/chat/completions", {{"messages", question()},
                                                          {"tools", {spaced, weather()}},
                                                          {"tool_choice", named},
                                                          {"max_tokens", 300},
                                                          {"temperature", 0}});
  EXPECT_EQ(reply["choices"][0]["message"]["tool_calls"][0]["function"]["name"], "crm::weather") << reply;
  // A group of the responses API is a namespace; its call goes back in the group's form.
  Json inner{{"type", "function"}, {"name", "weather"}, {"parameters", weather()["function"]["parameters"]}};
  const Json response =
      server_.ask("/v1/responses", {{"input", kQuestion},
                                    {"tools", {{{"type", "namespace"}, {"name", "crm"}, {"tools", {inner}}}}},
                                    {"tool_choice", "required"},
                                    {"max_output_tokens", 300},
                                    {"temperature", 0}});
  EXPECT_EQ(response["output"].back()["name"], "weather") << response;
  EXPECT_EQ(response["output"].back()["namespace"], "crm") << response;
  Json twice = spaced;
  twice["function"]["name"] = "other::weather";
  EXPECT_NE(error_of("/v1/chat/completions", {{"messages", question()}, {"tools", {twice}}})
                .find("tools[0].function.name: "),
            std::string::npos);
}

TEST_P(V41Profile, ImagesAreRefusedAndTextBesideThemIsNot) {
  const auto with = [](const Json& part) {
    return Json::array({{{"role", "user"}, {"content", {{{"type", "text"}, {"text", "u"}}, part}}}});
  };
  const Json image{{"type", "image_url"}, {"image_url", {{"url", "data:image/png;base64,iVBO"}}}};
  EXPECT_NE(
      error_of("/v1/chat/completions", {{"messages", with(image)}})
          .find("messages[0].content[1]: an image, and the model's vision tower is not loaded: only its text "
                "model is computed here"),
      std::string::npos);
  EXPECT_NE(
      error_of("/v1/messages",
               {{"max_tokens", 1},
                {"messages",
                 with({{"type", "tool_result"}, {"tool_use_id", "c"}, {"content", {{{"type", "image"}}}}})}})
          .find("messages[0].content[1].content[0]: an image"),
      std::string::npos);
  EXPECT_NE(error_of("/v1/responses", {{"input", with({{"type", "input_image"}})}})
                .find("input[0].content[1]: an image"),
            std::string::npos);
  EXPECT_EQ(prompt({{"messages", with({{"type", "text"}, {"text", "v"}})}}),
            "<｜begin▁of▁sentence｜><｜User｜>u\n\nv<｜Assistant｜></think>");
}

}  // namespace
}  // namespace baleen
