// Damage that models do to calls, one case each: repaired where it can mean one thing, else the call is
// dropped and shown.
#include <gtest/gtest.h>

#include "chat/format.h"
#include "read_reply.h"

namespace baleen {
namespace {

using test::ReadReply;
using Calls = std::vector<std::pair<std::string, std::string>>;

std::vector<DeclaredTool> tools() {
  const auto schema = [](const char* text) { return parse_python_json(text).value(); };
  return {{"run", schema(R"({"type": "object", "properties": {"command": {"type": "string"}}})")},
          {"get_weather", schema(R"({"type": "object", "properties": {"city": {"type": "string"},
             "days": {"type": "integer"}, "ratio": {"type": "number"}, "metric": {"type": "boolean"},
             "options": {"type": "object"}, "tags": {"type": "array"}}})")}};
}

const std::string kBegin = "\n\n<｜DSML｜tool_calls>\n", kEnd = "</｜DSML｜tool_calls>";

std::string invoke(const std::string& tool, const std::string& body) {
  return "<｜DSML｜invoke name=\"" + tool + "\">\n" + body + "</｜DSML｜invoke>\n";
}

ReadReply read(const std::string& text, ThinkingMode mode = ThinkingMode::kChat) {
  const ReadReply reply = test::read_reply(text, tools(), {.mode = mode});
  for (const std::size_t piece_bytes : {1, 4})
    EXPECT_TRUE(reply == test::read_reply(text, tools(), {.mode = mode, .piece_bytes = piece_bytes})) << text;
  EXPECT_FALSE(test::leaks_markup(reply.content)) << reply.content;
  EXPECT_EQ(reply.content.find("DSML"), std::string::npos) << reply.content;
  return reply;
}

void expect_run_ls(const std::string& block) {
  const ReadReply reply = read(block);
  EXPECT_EQ(reply.calls, (Calls{{"run", R"({"command": "ls -la"})"}})) << block;
  EXPECT_EQ(reply.content, "") << block;
  EXPECT_EQ(reply.num_dropped, 0u) << block;
}

void expect_dropped(const std::string& block, const std::string& shown) {
  const ReadReply reply = read(block);
  EXPECT_EQ(reply.calls, Calls{}) << block;
  EXPECT_GT(reply.num_dropped, 0u) << block;
  EXPECT_NE(reply.content.find(shown), std::string::npos) << block << "\nshows: " << reply.content;
}

std::string weather(const std::string& key, const std::string& is_string, const std::string& value) {
  return kBegin +
         invoke("get_weather", "<｜DSML｜parameter name=\"" + key + "\" string=\"" + is_string + "\">" +
                                   value + "</｜DSML｜parameter>\n") +
         kEnd;
}

void expect_weather(const std::string& key, const std::string& value, const std::string& json) {
  for (const char* is_string : {"true", "false"}) {
    const ReadReply reply = read(weather(key, is_string, value));
    EXPECT_EQ(reply.calls, (Calls{{"get_weather", "{\"" + key + "\": " + json + "}"}})) << value;
  }
}

TEST(RepairedCalls, TagsOfParameters) {
  const std::string close = "</｜DSML｜parameter>\n";
  for (const std::string opening :
       {"<｜DSML｜parameter name=\"command\" string=\"true\"",
        "<｜DSML｜parameter key=\"command\" string=\"true\">",
        "<｜DSML｜parameter \"command\" string=\"true\">",
        "<｜DSML｜parameter name=\"command\" type=\"string\" string=\"true\">",
        "<｜DSML｜parameter name=\"command\" type=\"string\">",
        "<｜DSML｜param name=\"command\" string=\"true\">", "<｜DSML｜arg name=\"command\">",
        "<｜DSML｜Parameter name=\"Command\" string=\"true\">", "<｜DSML｜command>"}) {
    expect_run_ls(kBegin + invoke("run", std::string(opening) + "ls -la" + close) + kEnd);
  }
}

TEST(RepairedCalls, TagsWithoutTheTokenWhereATagIsDue) {
  for (const std::string name : {"DSML param", "DSML arg", "|DSML|parameter", "parameter"}) {
    const std::string parameter = "<" + name + " name=\"command\" string=\"true\">ls -la</" + name + ">\n";
    expect_run_ls(kBegin + invoke("run", parameter) + kEnd);
  }
  const std::string two =
      "<DSML param name=\"city\" string=\"true\">Rome</DSML param>\n<DSML param name=\"days\" "
      "string=\"false\">2</DSML "
      "param>\n";
  EXPECT_EQ(read(kBegin + invoke("get_weather", two) + kEnd).calls,
            (Calls{{"get_weather", R"({"city": "Rome", "days": 2})"}}));
  const std::string value =
      "<｜DSML｜parameter name=\"command\" string=\"true\">ls -la</｜DSML｜parameter>\n";
  expect_run_ls(kBegin + "<DSML Invoke name=\"run\">\n" + value + "</｜DSML｜invoke>\n" + kEnd);
  expect_run_ls("\n\n<|DSML|tool_calls>\n" + invoke("run", value) + kEnd);
}

TEST(RepairedCalls, ClosingTagsOfAnotherKind) {
  const std::string open = "<｜DSML｜parameter name=\"command\" string=\"true\">ls -la";
  for (const char* closing :
       {"</parameter>\n", "</param>", "</command>\n", "</|DSML|parameter>\n", "</DSML parameter>\n",
        "</｜DSML｜param>\n", "</｜DSML｜command>\n", "</｜DSML｜parameters>\n", "\n", ""}) {
    expect_run_ls(kBegin + invoke("run", open + closing) + kEnd);
  }
  expect_run_ls(kBegin + "<｜DSML｜invoke name=\"run\">\n" + open + "</parameter>\n</invoke>\n</tool_calls>");
}

TEST(RepairedCalls, NamesOfTools) {
  const std::string value = "<｜DSML｜parameter name=\"city\" string=\"true\">Rome</｜DSML｜parameter>\n";
  for (const char* name : {"functions.get_weather", "Get_Weather", "get-weather", "getWeather",
                           " get_weather ", "tools.Get_Weather"}) {
    EXPECT_EQ(read(kBegin + invoke(name, value) + kEnd).calls,
              (Calls{{"get_weather", R"({"city": "Rome"})"}}))
        << name;
  }
  const std::vector<DeclaredTool> two = {{"get_weather", {}}, {"getWeather", {}}};
  const ReadReply unclear = test::read_reply(kBegin + invoke("Get_Weather", value) + kEnd, two);
  EXPECT_EQ(unclear.calls, Calls{});
  EXPECT_EQ(unclear.num_dropped, 1u);
  expect_dropped(kBegin + invoke("other.get_weather", value) + kEnd, "other.get_weather\ncity: Rome");
}

TEST(RepairedCalls, BodiesOfJson) {
  const Calls rome = {{"get_weather", R"({"city": "Rome", "days": 2})"}};
  for (const char* body :
       {R"({"city": "Rome", "days": 2})", "```json\n{\"city\": \"Rome\", \"days\": 2}\n```\n",
        R"({"name": "get_weather", "arguments": {"city": "Rome", "days": 2}})",
        R"({"city": "Rome", "days": "2"})"}) {
    EXPECT_EQ(read(kBegin + invoke("get_weather", body) + kEnd).calls, rome) << body;
  }
  for (const char* list :
       {R"([{"name": "get_weather", "arguments": {"city": "Rome", "days": 2}}])",
        R"({"name": "functions.get_weather", "parameters": {"city": "Rome", "days": 2}})",
        "```json\n[{\"name\": \"get_weather\", \"arguments\": \"{\\\"city\\\": \\\"Rome\\\", \\\"days\\\": "
        "2}\"}]\n```"}) {
    EXPECT_EQ(read(kBegin + list + "\n" + kEnd).calls, rome) << list;
  }
  expect_dropped(kBegin + R"([{"name": "launch", "arguments": {}}])" + kEnd, "launch");
  expect_dropped(kBegin + invoke("run", "{\"command\": \"ls") + kEnd, "ls");
}

TEST(RepairedCalls, JsonOfObjectsAndArrays) {
  for (const char* value : {R"({"k": 1 "l": [2, 3]})", "{\"k\": 1, // first\n \"l\": [2, 3]}",
                            "{\"k\": 1, /* both */ \"l\": [2, 3]}", "```json\n{\"k\": 1, \"l\": [2, 3]}\n```",
                            R"({\"k\": 1, \"l\": [2, 3]})", "{'k': 1, 'l': [2, 3,]}"}) {
    expect_weather("options", value, R"({"k": 1, "l": [2, 3]})");
  }
  expect_weather("tags", R"(["a" "b"])", R"(["a", "b"])");
  expect_dropped(weather("options", "true", "none of your business"), "options: none of your business");
  expect_dropped(weather("tags", "true", "a, b"), "tags: a, b");
}

TEST(RepairedCalls, NumbersAndBooleans) {
  for (const auto& [text, json] : {std::pair("+3", "3"),
                                   {"1,000", "1000"},
                                   {"1_000", "1000"},
                                   {"1,234,567", "1234567"},
                                   {"\"5\"", "5"},
                                   {"`"
                                    "`"
                                    "`\n7\n```",
                                    "7"}}) {
    expect_weather("days", text, json);
  }
  for (const auto& [text, json] : {std::pair(".5", "0.5"), {"-.5", "-0.5"}, {"+.25", "0.25"}, {"2.", "2.0"}})
    expect_weather("ratio", text, json);
  for (const char* text : {"no", "No", "off", "False", "0"}) {
    if (std::string(text) != "0") expect_weather("metric", text, "false");
  }
  for (const char* text : {"yes", "on", "TRUE"}) expect_weather("metric", text, "true");
  expect_dropped(weather("days", "true", "soon"), "days: soon");
  expect_dropped(weather("ratio", "true", "1,000"), "ratio: 1,000");  // one, or a thousand
  expect_dropped(weather("days", "true", "10,00"), "days: 10,00");
  expect_dropped(weather("metric", "true", "maybe"), "metric: maybe");
}

TEST(RepairedCalls, CodeFencesAroundACallVanish) {
  const std::string value =
      "<｜DSML｜parameter name=\"command\" string=\"true\">ls -la</｜DSML｜parameter>\n";
  const std::string block = "<｜DSML｜tool_calls>\n" + invoke("run", value) + kEnd;
  for (const char* fence : {"```xml\n", "```\n", "```\n\n", "\n```tool_calls\n"}) {
    const ReadReply reply = read("Looking." + std::string("\n") + fence + block + "\n```\n");
    EXPECT_EQ(reply.calls, (Calls{{"run", R"({"command": "ls -la"})"}})) << fence;
    EXPECT_EQ(reply.content, "Looking.") << fence;
  }
  EXPECT_EQ(read("```sh\nls\n```\n").content, "```sh\nls\n```\n");
}

TEST(RepairedCalls, InReasoningWithNothingAfterIt) {
  const std::string block =
      kBegin +
      invoke("run", "<｜DSML｜parameter name=\"command\" string=\"true\">ls -la</｜DSML｜parameter>\n") +
      kEnd;
  const std::string eos(chat_format::kEos);
  for (const std::string& after :
       {std::string(), std::string("\n"), std::string("</think>"), "</think>\n\n" + eos, eos}) {
    const ReadReply reply = read("Let me look." + block + after, ThinkingMode::kThinking);
    EXPECT_EQ(reply.calls, (Calls{{"run", R"({"command": "ls -la"})"}})) << after;
    EXPECT_EQ(reply.reasoning, "Let me look.");
    EXPECT_EQ(reply.content, "");
  }
  EXPECT_EQ(read("Let me look." + block + "</think>No need.", ThinkingMode::kThinking).calls, Calls{});
}

TEST(RepairedCalls, WhatCanMeanTwoThingsIsDropped) {
  const std::string close = "</｜DSML｜parameter>\n";
  const std::string open = "<｜DSML｜parameter name=\"command\" string=\"true\">";
  expect_dropped(kBegin + invoke("run", open + "ls" + close + open + "pwd" + close) + kEnd, "command: ls");
  expect_dropped(kBegin + invoke("run", open + "ls" + close + "and more\n" + close) + kEnd, "and more");
  expect_dropped(
      kBegin + invoke("run", "<｜DSML｜parameter name=\"command\" string=\"true\"x=1" + close) + kEnd, "x=1");
  // The tag of a declared parameter that is nowhere else, within another's value.
  expect_dropped(kBegin +
                     invoke("get_weather",
                            "<｜DSML｜parameter name=\"city\" string=\"true\">Rome</parameter>\n<parameter "
                            "name=\"days\" string=\"false\">2" +
                                close) +
                     kEnd,
                 "Rome");
}

const std::string kClose = "</｜DSML｜parameter>\n";

std::string parameter(const std::string& key, const std::string& is_string, const std::string& value) {
  return "<｜DSML｜parameter name=\"" + key + "\" string=\"" + is_string + "\">" + value + kClose;
}

/// Tools that cannot do without some of their arguments.
std::vector<DeclaredTool> demanding_tools() {
  const auto schema = [](const char* text) { return parse_python_json(text).value(); };
  return {{"run", schema(R"({"properties": {"command": {"type": "string"}, "tags": {"type": "array"}},
                             "required": ["command"]})")},
          {"write_file", schema(R"({"properties": {"path": {"type": "string"}, "content": {"type": "string"}},
                                    "required": ["path", "content"]})")},
          {"start", schema(R"({"properties": {"arguments": {"type": "object"}, "input": {"type": "string"},
                                              "name": {"type": "string"}, "value": {"type": "string"}},
                               "required": ["name"]})")}};
}

Calls demanding_calls(const std::string& tool, const std::string& body) {
  const ReadReply reply = test::read_reply(kBegin + invoke(tool, body) + kEnd, demanding_tools());
  EXPECT_EQ(reply.calls.size() + reply.num_dropped, 1u) << body;
  EXPECT_EQ(reply.calls.empty(), reply.content.starts_with(tool)) << body << "\nshows: " << reply.content;
  return reply.calls;
}

TEST(RepairedCalls, WithoutARequiredArgumentNoCallIsMade) {
  const std::string open = "<｜DSML｜parameter name=\"command\" ";
  for (const std::string& body :
       {std::string(), std::string("\n"), std::string("ls -la\n"), std::string("{}"),
        parameter("tags", "false", "[]"), parameter("comand", "true", "ls"),
        parameter("command", "false", "null"), parameter("arguments", "false", "{}"),
        parameter("arguments", "false", "{\"tags\": []}"),
        parameter("payload", "false", "{\"command\": \"ls\"}")}) {
    EXPECT_EQ(demanding_calls("run", body), Calls{}) << body;
  }
  EXPECT_EQ(demanding_calls("write_file", parameter("path", "true", "a")), Calls{});
  EXPECT_EQ(demanding_calls("run", open + "value=\"a &amp; b\"/>\n"), Calls{});
  EXPECT_EQ(demanding_calls("run", open + "value=\"a\">b" + kClose), Calls{});
}

TEST(RepairedCalls, ArgumentsWrappedInOne) {
  const Calls run = {{"run", R"({"command": "ls -la"})"}};
  for (const char* wrapper : {"arguments", "input", "parameters", "args", "kwargs"}) {
    EXPECT_EQ(demanding_calls("run", parameter(wrapper, "false", R"({"command": "ls -la"})")), run)
        << wrapper;
    EXPECT_EQ(demanding_calls("run", parameter(wrapper, "true", R"({"command": "ls -la"})")), run) << wrapper;
    EXPECT_EQ(demanding_calls("run", std::string("{\"") + wrapper + R"(": {"command": "ls -la"}})"), run);
    EXPECT_EQ(demanding_calls("run", std::string("<｜DSML｜") + wrapper +
                                         R"(>{"command": "ls -la"}</｜DSML｜)" + wrapper + ">\n"),
              run)
        << wrapper;
  }
  // A tool may have parameters of those names.
  EXPECT_EQ(demanding_calls("start", parameter("name", "true", "n") +
                                         parameter("arguments", "false", R"({"name": "x"})") +
                                         parameter("input", "true", "{}") + parameter("value", "true", "v")),
            (Calls{{"start", R"({"name": "n", "arguments": {"name": "x"}, "input": "{}", "value": "v"})"}}));
  EXPECT_EQ(demanding_calls("start", R"({"name": "n", "arguments": {"q": 1}})"),
            (Calls{{"start", R"({"name": "n", "arguments": {"q": 1}})"}}));
  EXPECT_EQ(demanding_calls("start", R"({"name": "start", "arguments": {"name": "n"}})"), Calls{});  // either
}

TEST(RepairedCalls, BackslashesAreReadInOneWayOrNotAtAll) {
  const std::string rest = parameter("content", "true", "x");
  const auto written = [&](const std::string& path) {
    return demanding_calls("write_file", parameter("path", "false", path) + rest);
  };
  const Calls meant = {{"write_file", R"({"path": "C:\\dir\\new", "content": "x"})"}};
  EXPECT_EQ(written(R"("C:\\dir\\new")"), meant);
  EXPECT_EQ(written(R"(C:\dir\new)"), meant);
  EXPECT_EQ(written(R"("C:\dir\new")"), Calls{});
  EXPECT_EQ(demanding_calls("write_file", R"({"path": "C:\dir\new", "content": "x"})"), Calls{});
  EXPECT_EQ(demanding_calls("write_file", R"({\"path\": \"C:\\dir\\new\", \"content\": \"x\"})"), meant);
}

TEST(RepairedCalls, AnEndTokenInAValueDropsTheCall) {
  for (const char* value : {"", "abc", "abc\n"}) {
    const std::string content = std::string(value) + std::string(chat_format::kEos) + "more";
    EXPECT_EQ(
        demanding_calls("write_file", parameter("path", "true", "a") + parameter("content", "true", content)),
        Calls{})
        << value;
  }
}

TEST(RepairedCalls, TypesOtherThanDeclaredAreDropped) {
  for (const char* value : {"\"a\"", "5", "true", "{}", "a, b"}) {
    EXPECT_EQ(demanding_calls("run", parameter("command", "true", "ls") + parameter("tags", "false", value)),
              Calls{})
        << value;
  }
  EXPECT_EQ(demanding_calls("run", parameter("command", "false", R"(["ls"])")), Calls{});
  EXPECT_EQ(demanding_calls("run", parameter("command", "true", "ls") + parameter("tags", "false", "null")),
            (Calls{{"run", R"({"command": "ls", "tags": null})"}}));  // may be left out
}

TEST(RepairedCalls, WhatStandsInABlockWithoutCallsIsDroppedVisibly) {
  for (const char* text : {"run(command=\"ls\")\n", "<run><command>ls</command></run>\n",
                           "{\"command\": \"ls\"}\n", "[{\"name\": \"launch\", \"arguments\": {}}]\n"}) {
    const ReadReply reply = test::read_reply("Now." + kBegin + text + kEnd, demanding_tools());
    EXPECT_EQ(reply.calls, Calls{}) << text;
    EXPECT_EQ(reply.num_dropped, 1u) << text;
    EXPECT_TRUE(reply.content.starts_with("Now.\n\n")) << reply.content;
    EXPECT_FALSE(test::leaks_markup(reply.content)) << reply.content;
  }
}

/// A grammar that could not hold one tool's schema lets its calls lack anything: what streams cannot be taken
/// back.
TEST(RepairedCalls, EnforcedCallsOfAToolThatIsNotHeldBeginWhenAllRequiredArgumentsHave) {
  std::vector<DeclaredTool> tools = demanding_tools();
  tools[1].is_held = false;
  const auto collected = [&](const std::string& text) {
    return test::read_reply(text, tools, {.piece_bytes = 3, .enforcement = CallEnforcement::kFromToken});
  };
  const std::string path = parameter("path", "true", "a"), content = parameter("content", "true", "b");
  const ReadReply whole = collected(kBegin + invoke("write_file", path + content) + kEnd);
  EXPECT_EQ(whole.calls, (Calls{{"write_file", R"({"path": "a", "content": "b"})"}}));
  const ReadReply lacking = collected("Now." + kBegin + invoke("write_file", path) +
                                      invoke("run", parameter("command", "true", "ls")) + kEnd);
  EXPECT_EQ(lacking.calls, (Calls{{"run", R"({"command": "ls"})"}}));
  EXPECT_EQ(lacking.num_dropped, 1u);
  EXPECT_NE(lacking.content.find("write_file\n{\"path\": \"a\""), std::string::npos) << lacking.content;

  ReplyReader reader(ThinkingMode::kChat, tools, CallEnforcement::kFromToken);
  const std::string begun = kBegin + "<｜DSML｜invoke name=\"write_file\">\n" + path;
  EXPECT_EQ(reader.feed(with_marked_specials(begun)), std::vector<ReplyPart>{});
  const std::vector<ReplyPart> parts =
      reader.feed(with_marked_specials("<｜DSML｜parameter name=\"content\" string=\"true\">lo"));
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(parts[0].text, "write_file");
  EXPECT_EQ(parts[1].text, R"({"path": "a", "content": "lo)");
}

}  // namespace
}  // namespace baleen
