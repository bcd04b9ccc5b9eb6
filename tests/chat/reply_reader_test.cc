// Each kind of reply, whole and damaged, once: what docs/chat.md says becomes of it.
#include "chat/reply_reader.h"

#include <gtest/gtest.h>

#include "chat/format.h"
#include "chat/python_json.h"
#include "read_reply.h"

namespace baleen {
namespace {

using test::ReadReply;
using Calls = std::vector<std::pair<std::string, std::string>>;
using Kind = ReplyPart::Kind;

const std::string kEos(chat_format::kEos);

std::vector<DeclaredTool> tools() {
  const char* schema = R"({"type": "object", "properties": {
    "city": {"type": "string"}, "days": {"type": "integer"}, "metric": {"type": "boolean"},
    "tags": {"type": "array"}, "note": {"type": ["string", "null"]}, "any": {}}})";
  return {{"weather", parse_python_json(schema).value()}, {"free", PythonJson()}};
}

std::string parameter(const std::string& key, const std::string& is_string, const std::string& value) {
  return "<｜DSML｜parameter name=\"" + key + "\" string=\"" + is_string + "\">" + value +
         "</｜DSML｜parameter>\n";
}

std::string invoke(const std::string& name, const std::string& parameters) {
  return "<｜DSML｜invoke name=\"" + name + "\">\n" + parameters + "</｜DSML｜invoke>\n";
}

std::string block(const std::string& invokes) {
  return "\n\n<｜DSML｜tool_calls>\n" + invokes + "</｜DSML｜tool_calls>";
}

const std::string kParis = parameter("city", "true", "Paris");
const Calls kParisCall = {{"weather", R"({"city": "Paris"})"}};

ReadReply read(const std::string& text) { return test::read_reply(text, tools()); }
Calls calls_of(const std::string& text) { return read(text).calls; }

std::string arguments_of(const std::string& parameters, const std::string& tool = "weather") {
  const Calls calls = calls_of(block(invoke(tool, parameters)) + kEos);
  return calls.size() == 1 ? calls[0].second : "not one call";
}

TEST(ReplyReader, AnEnforcedCallStreams) {
  const std::vector<DeclaredTool> declared = tools();
  ReplyReader reader(ThinkingMode::kThinking, declared, CallEnforcement::kFromToken);
  const auto feed = [&reader](std::string_view text) { return reader.feed(with_marked_specials(text)); };
  EXPECT_EQ(feed("so</think>Wait"),
            (std::vector<ReplyPart>{{Kind::kReasoning, "so"}, {Kind::kContent, "Wait"}}));
  EXPECT_EQ(feed(".\n"), (std::vector<ReplyPart>{{Kind::kContent, "."}}));
  EXPECT_EQ(feed("\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"weather\""), (std::vector<ReplyPart>{}));
  EXPECT_EQ(feed(">"), (std::vector<ReplyPart>{}));
  EXPECT_EQ(feed("\n"), (std::vector<ReplyPart>{{Kind::kCallBegin, "weather"}, {Kind::kCallArguments, "{"}}));
  EXPECT_EQ(feed("<｜DSML｜parameter name=\"city\" string=\"true\">P\"a"),
            (std::vector<ReplyPart>{{Kind::kCallArguments, "\"city\": \"P\\\"a"}}));
  EXPECT_EQ(feed("ris</"), (std::vector<ReplyPart>{{Kind::kCallArguments, "ris"}}));
  EXPECT_EQ(feed("｜DSML｜parameter>\n<｜DSML｜parameter name=\"days\" string=\"false\">1"),
            (std::vector<ReplyPart>{{Kind::kCallArguments, "\""}}));
  EXPECT_EQ(feed("2</｜DSML｜parameter>\n"),
            (std::vector<ReplyPart>{{Kind::kCallArguments, ", \"days\": 12"}}));
  EXPECT_EQ(feed("</｜DSML｜invoke>\n"),
            (std::vector<ReplyPart>{{Kind::kCallArguments, "}"}, {Kind::kCallEnd, ""}}));
  EXPECT_EQ(feed("</｜DSML｜tool_calls>" + kEos), (std::vector<ReplyPart>{}));
  EXPECT_EQ(reader.finish(false), (std::vector<ReplyPart>{}));
  EXPECT_EQ(reader.num_repairs(), 0u);
  EXPECT_TRUE(reader.raw_calls().starts_with("\n\n<｜DSML｜tool_calls>\n"));
  EXPECT_TRUE(reader.raw_calls().ends_with("</｜DSML｜tool_calls>"));
  ASSERT_EQ(reader.calls().size(), 1u);
  EXPECT_EQ(reader.calls()[0].arguments, R"({"city": "P\"aris", "days": 12})");
}

TEST(ReplyReader, RawCallsOnlyWithoutRepair) {
  const std::string exact = block(invoke("weather", kParis) + invoke("free", "\n"));
  EXPECT_EQ(read("a" + exact + kEos).raw_calls, exact);
  EXPECT_EQ(read("a" + exact).raw_calls, exact);  // the server may not pass the end token on
  EXPECT_EQ(read(exact.substr(1) + kEos).raw_calls, "");
  EXPECT_EQ(read(block(invoke("weather", parameter("days", "true", "5"))) + kEos).raw_calls, "");
  EXPECT_EQ(read(block(invoke("weather", kParis) + invoke("unknown", kParis)) + kEos).raw_calls, "");
  EXPECT_EQ(read("no call" + kEos).raw_calls, "");
}

TEST(ReplyReader, MissingTags) {
  const std::string open = "\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"weather\">\n";
  const std::string value = "<｜DSML｜parameter name=\"city\" string=\"true\">Paris";
  EXPECT_EQ(calls_of(open + value + "\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>" + kEos), kParisCall);
  EXPECT_EQ(calls_of(open + value + "\n</｜DSML｜tool_calls>" + kEos), kParisCall);
  // Only the end of the reply ends the value: it may have been meant to go on.
  EXPECT_EQ(calls_of(open + value + "\n" + kEos), Calls{});
  EXPECT_EQ(calls_of(open + value), Calls{});
  EXPECT_EQ(calls_of(open + kParis + "</｜DSML｜tool_calls>" + kEos), kParisCall);
  EXPECT_EQ(calls_of(open + kParis + kEos), kParisCall);
  EXPECT_EQ(calls_of(invoke("weather", kParis) + kEos), kParisCall);
  EXPECT_EQ(calls_of(open + value + "\n" + parameter("days", "false", "2") + "</｜DSML｜invoke>" + kEos),
            (Calls{{"weather", R"({"city": "Paris", "days": 2})"}}));
  EXPECT_EQ(calls_of(open + value + "\n" + invoke("free", "") + kEos), Calls{});  // or a quotation of a call
  EXPECT_EQ(calls_of(open + kParis + invoke("free", "")), (Calls{kParisCall[0], {"free", "{}"}}));
}

TEST(ReplyReader, TagsWrittenAlmostRight) {
  const std::string exact = block(invoke("weather", kParis)) + kEos;
  const std::pair<std::string, std::string> kDamages[] = {
      {"<｜DSML｜", "｜DSML｜"},
      {"<｜DSML｜", "< ｜DSML｜ "},
      {"</｜DSML｜", "<｜DSML｜/"},
      {"\">\n", "\"\n"},
      {"\"", "'"},
      {"\"", ""},
      {"\"", "\\\""},
      {"=\"", "=“"},
      {"\">", "”>"},
      {"weather\"", "weather"},
      {"city\"", "city"},
      {"=", " = "},
      {"\n", ""},
      {"\n", "\n\n  "},
      {"name=\"city\" string=\"true\"", "string=\"true\" name=\"city\""},
      {" string=\"true\"", ""},
      {"name=\"city\" string", "name=\"city\"string"},
      {"string=\"true\"", "string=\"True\""},
      {"string=\"true\">", "string=\"true\""},
      {"tool_calls", "function_calls"},
      {"</｜DSML｜parameter>", "<｜DSML｜parameter>"},
      {"</｜DSML｜invoke>", "<｜DSML｜invoke>"},
      {" name=\"city\"", " name=\" city \""},
  };
  for (const auto& [from, to] : kDamages) {
    std::string damaged = exact;
    for (std::size_t at = 0; (at = damaged.find(from, at)) != std::string::npos; at += to.size()) {
      damaged.replace(at, from.size(), to);
    }
    const ReadReply reply = read(damaged);
    EXPECT_EQ(reply.calls, kParisCall) << from << " as " << to << ": " << damaged;
    EXPECT_EQ(reply.content.find_first_not_of(" \n"), std::string::npos)
        << from << " as " << to << ": " << damaged;
  }
}

TEST(ReplyReader, ValuesTakeTheDeclaredType) {
  EXPECT_EQ(arguments_of(parameter("days", "true", "5")), R"({"days": 5})");
  EXPECT_EQ(arguments_of(parameter("days", "false", "\"5\"")), R"({"days": 5})");
  EXPECT_EQ(arguments_of(parameter("days", "true", "soon")), "not one call");
  EXPECT_EQ(arguments_of(parameter("city", "false", "Paris")), R"({"city": "Paris"})");
  EXPECT_EQ(arguments_of(parameter("city", "false", "\"Paris\"")), R"({"city": "Paris"})");
  EXPECT_EQ(arguments_of(parameter("city", "false", "75")), R"({"city": "75"})");
  EXPECT_EQ(arguments_of(parameter("note", "false", "null")), R"({"note": null})");
  EXPECT_EQ(arguments_of(parameter("metric", "true", "True")), R"({"metric": true})");
  EXPECT_EQ(arguments_of(parameter("metric", "false", "False")), R"({"metric": false})");
  EXPECT_EQ(arguments_of(parameter("tags", "true", "['a', None,]")), R"({"tags": ["a", null]})");
  EXPECT_EQ(arguments_of(parameter("tags", "false", "\"[1, 2]\"")), R"({"tags": [1, 2]})");
  EXPECT_EQ(arguments_of(parameter("x", "false", "bare words"), "free"), R"({"x": "bare words"})");
  EXPECT_EQ(arguments_of(parameter("x", "false", "NaN"), "free"), R"({"x": "NaN"})");
  EXPECT_EQ(arguments_of(parameter("x", "false", " [1,2]"), "free"), R"({"x":  [1,2]})");  // verbatim
  EXPECT_EQ(arguments_of(parameter("x", "false", ""), "free"), "{}");
  EXPECT_EQ(arguments_of("<｜DSML｜parameter name=\"x\">7</｜DSML｜parameter>", "free"), R"({"x": 7})");
  EXPECT_EQ(arguments_of("<｜DSML｜parameter name=\"x\">seven</｜DSML｜parameter>", "free"),
            R"({"x": "seven"})");
}

TEST(ReplyReader, ArgumentsInOtherShapes) {
  EXPECT_EQ(arguments_of(kParis + parameter("city", "true", "Rome")), "not one call");
  EXPECT_EQ(arguments_of(kParis + kParis), R"({"city": "Paris"})");
  EXPECT_EQ(arguments_of("{\"city\": \"Paris\"}\n"), R"({"city": "Paris"})");
  EXPECT_EQ(
      arguments_of("<｜DSML｜parameter name=\"city\" string=\"true\">" + kParis + "</｜DSML｜parameter>"),
      R"({"city": "Paris"})");
  EXPECT_EQ(arguments_of("<｜DSML｜invoke name=\"weather\">\n" + kParis), R"({"city": "Paris"})");
  EXPECT_EQ(arguments_of(parameter("city", "true", "a <｜DSML｜parameter name=\"zz\" string=\"true\"> b")),
            "not one call");
  EXPECT_EQ(arguments_of(parameter("city", "true", "</think><｜User｜>")),
            R"({"city": "</think><｜User｜>"})");
  EXPECT_EQ(arguments_of(parameter("city", "true", "\xFFx\xE7\x8B")), "{\"city\": \"\uFFFDx\uFFFD\"}");
  const ReadReply loose = read(block(invoke("weather", "so:\n" + kParis)) + kEos);
  EXPECT_EQ(loose.calls, kParisCall);
  EXPECT_EQ(loose.content, "so:");
}

TEST(ReplyReader, CutRepliesLeaveEnforcedCallsCutAndDropOthers) {
  const std::string open = "\n\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"weather\">\n";
  const auto cut = [&](const std::string& rest, CallEnforcement enforcement = CallEnforcement::kFromToken) {
    return test::read_reply(open + rest, tools(), {.cut = true, .enforcement = enforcement});
  };
  const auto cut_call = [](const std::string& arguments) { return Calls{{"weather", arguments}}; };
  const std::string begun = "<｜DSML｜parameter name=\"city\" string=\"true\">Par";
  EXPECT_EQ(cut(begun).calls, cut_call(R"({"city": "Par)"));
  EXPECT_EQ(cut(begun + "is<").calls, cut_call(R"({"city": "Paris)"));
  EXPECT_EQ(cut(begun + "is</").calls, cut_call(R"({"city": "Paris)"));
  EXPECT_EQ(cut(begun + "is</｜DSML｜para").calls, cut_call(R"({"city": "Paris)"));
  EXPECT_EQ(cut(kParis).calls, cut_call(R"({"city": "Paris")"));
  EXPECT_EQ(cut(kParis + "<｜DSML｜parameter name=\"days\" string=\"false\">1").calls,
            cut_call(R"({"city": "Paris")"));  // of 12, perhaps
  EXPECT_EQ(cut(kParis + "<｜DSML｜parameter name=\"da").calls, cut_call(R"({"city": "Paris")"));
  EXPECT_EQ(cut("").calls, cut_call("{"));
  EXPECT_EQ(cut(kParis + "</｜DSML｜invoke>\n").calls, kParisCall);
  EXPECT_EQ(cut(kParis + "</｜DSML｜invoke>\n").raw_calls, "");  // its block is not whole
  for (const std::string& rest : {begun, kParis, std::string()}) {
    const ReadReply dropped = cut(rest, CallEnforcement::kNone);
    EXPECT_EQ(dropped.calls, Calls{}) << rest;
    EXPECT_EQ(dropped.num_dropped, 1u) << rest;
  }
  EXPECT_EQ(cut(kParis + "</｜DSML｜invoke>", CallEnforcement::kNone).calls, kParisCall);
}

TEST(ReplyReader, ACutReplyEndsBeforeWhatMayHaveBegunACall) {
  const auto cut = [&](const std::string& text, CallEnforcement enforcement) {
    return test::read_reply(text, tools(), {.cut = true, .enforcement = enforcement}).content;
  };
  EXPECT_EQ(cut("Hi.\n\n<", CallEnforcement::kFromToken), "Hi.");
  EXPECT_EQ(cut("1 <", CallEnforcement::kFromToken), "1 <");
  EXPECT_EQ(cut("\n\n", CallEnforcement::kWholeBody), "");
  EXPECT_EQ(test::read_reply("Hi.\n\n<", {}, {.cut = true}).content, "Hi.\n\n<");
}

TEST(ReplyReader, JsonInsteadOfParametersIsNotClosedWhereTheReplyIsCut) {
  const std::string json = R"([{"name": "weather", "arguments": {"city": "Paris", "days": 12}}])";
  for (std::size_t size = 0; size <= json.size(); ++size) {
    const std::string text = "\n\n<｜DSML｜tool_calls>\n" + json.substr(0, size);
    EXPECT_EQ(test::read_reply(text, tools(), {.cut = true}).calls, Calls{}) << text;
  }
}

TEST(ReplyReader, UnknownToolsAreText) {
  const ReadReply reply =
      read("Hi." + block(invoke("rockets", kParis + parameter("n", "false", "3"))) + "\nBye.\n" + kEos);
  EXPECT_EQ(reply.calls, Calls{});
  EXPECT_EQ(reply.content, "Hi.\n\nrockets\ncity: Paris\nn: 3\n\nBye.\n");
  EXPECT_EQ(test::read_reply(block(invoke("weather", kParis)) + kEos, {}).content, "weather\ncity: Paris");
  const ReadReply mixed = read(block(invoke("rockets", "") + "and\n" + invoke("weather", kParis)) + kEos);
  EXPECT_EQ(mixed.calls, kParisCall);
  EXPECT_EQ(mixed.content, "rockets\n\nand");
}

TEST(ReplyReader, SpecialStringsDoNotLeak) {
  EXPECT_EQ(read("a</think>b<｜User｜>c｜DSML｜d<｜DSML｜x y=\"1\">e" + kEos + "f").content, "abcde");
  EXPECT_EQ(read("a<thi<think>nk>b").content, "a<thi nk>b");
  EXPECT_EQ(read("a<｜DSML｜tool_c").content, "a");
  EXPECT_EQ(read("1 < 2 </b> | / ｜ <").content, "1 < 2 </b> | / ｜ <");
  EXPECT_EQ(read("a\n\n").content, "a\n\n");
}

TEST(ReplyReader, ReasoningAndBlocksWithinIt) {
  const auto think = [](const std::string& text, bool cut = false) {
    return test::read_reply(text, tools(), {.mode = ThinkingMode::kThinking, .cut = cut});
  };
  const std::string call = block(invoke("weather", kParis));
  EXPECT_EQ(think("never closed" + kEos), (ReadReply{.reasoning = "never closed"}));
  EXPECT_EQ(think("<think>a" + kEos).reasoning, "a");
  EXPECT_EQ(think("a" + call + kEos),
            (ReadReply{.reasoning = "a", .calls = kParisCall, .raw_calls = call, .num_repairs = 1}));
  EXPECT_EQ(think("a" + call + "</think>\n" + kEos).calls, kParisCall);  // nothing follows
  EXPECT_EQ(think("a" + call + "\n").calls, kParisCall);
  const ReadReply thought = think("a" + call + "</think>b" + kEos);
  EXPECT_EQ(thought.calls, Calls{});
  EXPECT_EQ(thought.reasoning, "a\n\nweather\ncity: Paris");
  EXPECT_EQ(thought.content, "b");
  EXPECT_EQ(think("a" + call + " or not" + kEos).calls, Calls{});
  EXPECT_EQ(think("a" + call, true).calls, Calls{});
  EXPECT_EQ(think("a" + block(invoke("rockets", kParis)) + kEos).calls, Calls{});
  EXPECT_EQ(think("a" + call + "</think>" + call + kEos).calls, kParisCall);
}

}  // namespace
}  // namespace baleen
