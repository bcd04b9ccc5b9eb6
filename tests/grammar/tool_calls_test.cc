#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "chat/dsml.h"
#include "chat/format.h"
#include "chat/parse.h"
#include "tests/grammar/instances.h"
#include "tests/grammar/walks.h"

namespace baleen {
namespace {

const std::vector<ToolGrammar>& tools() {
  static const std::vector<ToolGrammar> list = {
      {"get_weather",
       json(R"({"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"},
          "unit": {"enum": ["C", "F", "Celsius"]}}, "required": ["city"]})")},
      {"get_time", json(R"({"type": "object", "properties": {}})")},
      {"get", json(R"({"type": "object", "properties": {"id": {"type": ["string", "integer", "null"]},
          "tags": {"type": "array", "items": {"type": "string"}}, "opt": {"anyOf": [{"type": "boolean"}, {"enum": ["auto", 1]}]},
          "code": {"type": "string", "pattern": "^[A-Z]{2}$"}, "nick": {"type": "string", "maxLength": 3}}, "required": ["id", "tags"]})")},
  };
  return list;
}

std::string call(const std::string& parameters, const std::string& name = "get_weather") {
  return "\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"" + name + "\">\n" + parameters +
         "\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>";
}

std::string parameter(const std::string& name, const std::string& value, bool is_string) {
  return "<｜DSML｜parameter name=\"" + name + "\" string=\"" + (is_string ? "true" : "false") + "\">" +
         value + "</｜DSML｜parameter>";
}

TEST(ToolCalls, TextsThatFitAndTextsThatDoNot) {
  const Grammar grammar = tool_calls_grammar(tools(), true).value();
  const std::string city = parameter("city", "Köln </b> \"x\"\n｜", true),
                    days = parameter("days", "3", false);
  EXPECT_TRUE(accepts_text(grammar, call(city)));
  EXPECT_TRUE(accepts_text(grammar, call(parameter("city", "", true))));
  EXPECT_TRUE(accepts_text(grammar, call(parameter("city", "<<</<｜DSML <</", true))));
  EXPECT_TRUE(accepts_text(grammar, call(days + "\n" + city)));
  EXPECT_TRUE(accepts_text(grammar, call(city + "\n" + parameter("unit", "C", true) + "\n" + days)));
  EXPECT_TRUE(accepts_text(grammar, call(parameter("unit", "Celsius", true) + "\n" + city)));
  EXPECT_TRUE(accepts_text(grammar, call("", "get_time")));
  EXPECT_FALSE(accepts_text(grammar, call(days))) << "required";
  EXPECT_FALSE(accepts_text(grammar, call(city + "\n" + city))) << "twice";
  EXPECT_FALSE(accepts_text(grammar, call(parameter("city", "a｜DSML｜b", true))));
  EXPECT_FALSE(accepts_text(grammar, call(parameter("city", "\"Rome\"", false))));
  EXPECT_FALSE(accepts_text(grammar, call(city + "\n" + parameter("unit", "K", true))));
  EXPECT_FALSE(accepts_text(grammar, call(city + "\n" + parameter("days", "x", false))));
  EXPECT_FALSE(accepts_text(grammar, call(city + "\n" + parameter("zip", "1", false))));
  EXPECT_FALSE(accepts_text(grammar, call(city, "get_weathe")));
  EXPECT_FALSE(accepts_text(grammar, call(city) + "\n"));
  const std::string list = parameter("tags", "[\"a\", \"b\"]", false);
  for (const std::string& id :
       {parameter("id", "7", true), parameter("id", "7", false), parameter("id", "null", false)})
    EXPECT_TRUE(accepts_text(grammar, call(list + "\n" + id, "get")));
  const std::string id = parameter("id", "7", true) + "\n" + list + "\n";
  EXPECT_TRUE(accepts_text(grammar, call(id + parameter("opt", "auto", true), "get")));
  EXPECT_TRUE(accepts_text(grammar, call(id + parameter("opt", "1", false), "get")));
  EXPECT_FALSE(accepts_text(grammar, call(id + parameter("opt", "1", true), "get")));
  EXPECT_TRUE(accepts_text(grammar, call(id + parameter("code", "AB", true), "get")));
  EXPECT_FALSE(accepts_text(grammar, call(id + parameter("code", "ABC", true), "get")));
  EXPECT_TRUE(accepts_text(grammar, call(id + parameter("nick", "éé\n", true), "get")));
  EXPECT_FALSE(accepts_text(grammar, call(id + parameter("nick", "abcd", true), "get")));
}

class ToolCallsOf : public testing::TestWithParam<PromptProfile> {
 protected:
  const CallTags& tags_ = call_tags(GetParam());
};
INSTANTIATE_TEST_SUITE_P(Profiles, ToolCallsOf,
                         testing::Values(PromptProfile::kOfficial, PromptProfile::kV41),
                         [](const auto& test) {
                           return test.param == PromptProfile::kV41 ? "Spaced" : "Joined";
                         });

// What the encoder writes is what the grammar takes, and nothing else: not the other spelling, not a space
// more or less, no tag without its end.
TEST_P(ToolCallsOf, WhatTheEncoderWritesAndNothingDamaged) {
  const std::vector<ToolGrammar> names = {{"crm::find", tools()[0].parameters},
                                          {"get_time", tools()[1].parameters}};
  const Grammar grammar = tool_calls_grammar(names, true, nullptr, tags_).value();
  const std::vector<ToolCall> calls = {{"", "crm::find", R"({"days": 3, "city": "Köln </b> calls>"})"},
                                       {"", "get_time", "{}"}};
  const std::string block = "\n\n" + render_tool_calls(calls, prompt_rules(GetParam())).value().text;
  EXPECT_TRUE(accepts_text(grammar, block)) << block;
  for (const PromptRules& rules : all_prompt_rules()) {
    const std::string other = "\n\n" + render_tool_calls(calls, rules).value().text;
    EXPECT_EQ(accepts_text(grammar, other), &rules.tags == &tags_) << other;
  }
  const std::size_t num_bytes = block.size();
  for (std::size_t at = 0; at < num_bytes; ++at)
    EXPECT_FALSE(accepts_text(grammar, block.substr(0, at))) << at;
  const std::pair<std::string, std::string> kDamages[] = {
      {tags_.calls_start, tags_.calls_start + " "},
      {tags_.calls_end, "</" + tags_.calls + ">"},
      {tags_.invoke_start + " name", tags_.invoke_start + "  name"},
      {tags_.invoke_end + ">", tags_.invoke_end + " >"},
      {tags_.parameter_start, "<" + tags_.parameter},
      {"<" + tags_.parameter_end, tags_.parameter_end},
      {"crm::find", "find"},
      {" string=\"false\"", ""},
      {tags_.invoke_closing, ""},
      {tags_.calls_opening, "\n\n"}};
  for (const auto& [from, to] : kDamages) {
    std::string damaged = block;
    const std::size_t at = damaged.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    EXPECT_FALSE(accepts_text(grammar, damaged.replace(at, from.size(), to))) << damaged;
  }
}

TEST(ToolCalls, OneCallOrMany) {
  const std::string two =
      "\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"get_time\">\n\n</｜DSML｜invoke>\n"
      "<｜DSML｜invoke name=\"get_time\">\n\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>";
  EXPECT_TRUE(accepts_text(tool_calls_grammar(tools(), true).value(), two));
  EXPECT_FALSE(accepts_text(tool_calls_grammar(tools(), false).value(), two));
}

TEST(ToolCalls, OrJsonOfASchema) {
  const PythonJson schema = parse_python_json(R"({"type": "integer"})").value();
  const Grammar grammar = json_or_tool_calls_grammar(schema, tools(), true).value();
  EXPECT_TRUE(accepts_text(grammar, "17"));
  EXPECT_FALSE(accepts_text(grammar, "\"17\""));
  EXPECT_FALSE(accepts_text(grammar, "17\n\n<｜DSML｜tool_calls>\n"));
  const ToolGrammar free{.name = "f", .parameters = {}};
  const Grammar either = json_or_tool_calls_grammar(schema, {&free, 1}, false).value();
  EXPECT_TRUE(accepts_text(either, call("", "f")));
  EXPECT_FALSE(json_or_tool_calls_grammar(parse_python_json(R"({"not": {}})").value(), tools(), true).ok());
}

TEST(ToolCalls, WithoutASchemaAnythingGoes) {
  const std::vector<ToolGrammar> free = {{"f", PythonJson()}};
  const Grammar grammar = tool_calls_grammar(free, false).value();
  EXPECT_TRUE(accepts_text(grammar, call("", "f")));
  EXPECT_TRUE(accepts_text(
      grammar, call(parameter("any", "raw", true) + "\n" + parameter("b", "{\"x\": [1]}", false), "f")));
  EXPECT_FALSE(accepts_text(grammar, call(parameter("b", "\"s\"", false), "f")));
  EXPECT_FALSE(accepts_text(grammar, call(parameter("", "raw", true), "f")));
}

// Both spellings go through one vocabulary, whose masks of common rules they share.
TEST_P(ToolCallsOf, RandomBlocksReadBack) {
  std::mt19937 random(3);
  static const WalkVocabulary small = random_vocabulary(4);
  const Grammar grammar = tool_calls_grammar(tools(), true, nullptr, tags_).value();
  const auto check = [&](const WalkVocabulary& vocabulary, int replies, bool exact) {
    for (int i = 0; i < replies; ++i) {
      const ReplyConstraint constraint({.body = ReplyRules::Body::kToolCalls, .grammar = grammar},
                                       vocabulary.masks);
      const std::string reply = random_reply(constraint, vocabulary, random, exact);
      const Result<Message> message =
          parse_completion(reply + std::string(chat_format::kEos), ThinkingMode::kChat, tags_);
      ASSERT_TRUE(message.ok()) << reply << message.error();
      ASSERT_FALSE(message.value().tool_calls.empty());
      for (const ToolCall& one : message.value().tool_calls) {
        const auto tool = std::ranges::find(tools(), one.name, &ToolGrammar::name);
        ASSERT_NE(tool, tools().end()) << one.name;
        EXPECT_TRUE(is_valid(json(one.arguments), tool->parameters, tool->parameters)) << one.arguments;
      }
    }
  };
  check(small, 60, true);
  check(bundled_vocabulary(), 40, false);
}

TEST(ToolCalls, WhatCannotBeWrittenIsRefusedByName) {
  const auto error = [](const std::string& name, const std::string& parameters) {
    const std::vector<ToolGrammar> list = {{name, json(parameters)}};
    const Result<Grammar> grammar = tool_calls_grammar(list, true);
    return grammar.ok() ? "" : grammar.error();
  };
  EXPECT_EQ(tool_calls_grammar({}, true).error(), "tools: expected at least one function");
  EXPECT_EQ(error("a\"b", "{}"),
            "tools[0]: its name is \"a\\\"b\"; expected one without quotes, control characters and ｜DSML｜");
  EXPECT_EQ(error("f", R"({"type": "string"})"), "tool \"f\": expected the schema of an object");
  EXPECT_EQ(error("f", R"({"type": "object", "properties": {"p": {"not": {}}}})"),
            "tool \"f\".properties.p: not is not supported; leave it out and check the reply instead");
  EXPECT_EQ(error("f", R"({"type": "object", "properties": {"p": {"enum": ["｜DSML｜"]}}})"),
            "tool \"f\".properties.p: a constant holds ｜DSML｜, which no reply may");
  const std::vector<ToolGrammar> twice = {{"f", PythonJson()}, {"f", PythonJson()}};
  EXPECT_EQ(tool_calls_grammar(twice, true).error(), "tools[1]: named \"f\" like tools[0]");
}

}  // namespace
}  // namespace baleen
