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
  return begin + effort_text(prompt_rules(profile), name).value() + turn + "<think>";
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
                         testing::Values(PromptProfile::kPreview, PromptProfile::kOfficial),
                         [](const auto& test) { return std::string(prompt_profile_name(test.param)); });

TEST_P(PromptProfiles, TheListOfModelsHasItsEfforts) {
  const Json model = listed(), reasoning = model["reasoning"];
  const bool official = GetParam() == PromptProfile::kOfficial;
  EXPECT_EQ(model["prompt_profile"], official ? "official" : "preview");
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
    EXPECT_NE(
        reply.body.find("effort: expected none, minimal, low, medium, high, xhigh, max or ultra, found"),
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
  EXPECT_NE(without.find("<｜User｜>u<｜Assistant｜><think></think>\n\n<｜DSML｜tool_calls>"),
            std::string::npos)
      << without;
  assistant["reasoning_content"] = nullptr;
  EXPECT_EQ(said(assistant), without);
  assistant["reasoning_content"] = "why";
  EXPECT_NE(said(assistant).find("<think>why</think>"), std::string::npos);
}

}  // namespace
}  // namespace baleen
