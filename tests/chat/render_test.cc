// What goldens/encode.jsonl cannot hold: messages without a rendering, and requests that are malformed as
// such.
#include "chat/render.h"

#include <gtest/gtest.h>

#include "chat/format.h"
#include "chat/json_lines.h"

namespace baleen {
namespace {

Message message(Role role, std::string content) {
  Message result;
  result.role = role;
  result.content = std::move(content);
  return result;
}

Message call(std::string arguments) {
  Message result = message(Role::kAssistant, "");
  result.tool_calls.push_back({"", "f", std::move(arguments)});
  return result;
}

std::string error_of(std::vector<Message> messages, RenderOptions options = {}) {
  const Result<std::string> prompt = render_prompt(messages, options);
  return prompt ? "" : prompt.error();
}

TEST(Render, MessagesWithoutARendering) {
  Message wizard = message(Role::kUnknown, "w");
  wizard.unknown_role = "wizard";
  const std::string no_rendering =
      ": this role has no rendering; expected system, user, developer, assistant, tool or latest_reminder";
  EXPECT_EQ(error_of({message(Role::kUser, "u"), wizard}), "message 1 (\"wizard\")" + no_rendering);
  EXPECT_EQ(error_of({wizard, message(Role::kUser, "u")}), "");  // dropped before the last user turn
  EXPECT_EQ(error_of({wizard, message(Role::kUser, "u")}, {.thinking_mode = ThinkingMode::kChat}),
            "message 0 (\"wizard\")" + no_rendering);
  EXPECT_EQ(error_of({message(Role::kDirectSearchResults, "d"), message(Role::kUser, "u")}),
            "message 0 (\"direct_search_results\")" + no_rendering);
  EXPECT_EQ(error_of({message(Role::kDeveloper, "")}),
            "message 0 (\"developer\"): a developer message needs content, found none");
}

TEST(Render, ArgumentsMustBeAnObject) {
  for (const char* arguments : {"[]", "1", "\"text\"", "null", "true"}) {
    EXPECT_NE(error_of({message(Role::kUser, "u"), call(arguments)}), "") << arguments;
  }
  EXPECT_EQ(error_of({message(Role::kUser, "u"), message(Role::kUser, "v"), call("[]")}),
            "message 2 (\"assistant\"): call of \"f\": its arguments are an array; expected the JSON text of "
            "an object, "
            "such as {\"key\": 1}");
}

TEST(Render, ArgumentsTooDeepOrWithHalfASurrogateStayRaw) {
  for (const std::string& arguments : {std::string(5000, '['), std::string(R"({"a": "\ud800"})")}) {
    const Result<std::string> prompt = render_prompt(std::vector{call(arguments)}, {});
    ASSERT_TRUE(prompt) << prompt.error();
    EXPECT_NE(
        prompt.value().find("<｜DSML｜parameter name=\"arguments\" string=\"true\">" + arguments + "</"),
        std::string::npos);
  }
}

TEST(Render, RawToolCallsAreRenderedAsTheyAre) {
  Message raw = call(R"({"a": 1})");
  raw.content = "c";
  raw.raw_tool_calls = "\n\n<anything>";
  const std::string prompt = render_prompt(std::vector{message(Role::kUser, "u"), raw}, {}).value();
  EXPECT_TRUE(prompt.ends_with("</think>c\n\n<anything>" + std::string(chat_format::kEos))) << prompt;
}

// Clients of other APIs do not send back what they were not shown.
TEST(Render, HistoriesWithoutReasoningRenderInBothModes) {
  Message declares = message(Role::kSystem, "s"), answer = message(Role::kTool, "r");
  declares.tools.push_back(PythonJson::Object{{"name", "f"}});
  const std::vector<Message> messages = {declares, message(Role::kUser, "u"),      call("{}"),
                                         answer,   message(Role::kAssistant, "a"), message(Role::kUser, "v")};
  const std::string thinking = render_prompt(messages, {}).value();
  const std::string chat = render_prompt(messages, {.thinking_mode = ThinkingMode::kChat}).value();
  // Tools keep the reasoning of every turn: it is there and empty.
  EXPECT_NE(thinking.find("<｜Assistant｜><think></think>\n\n<｜DSML｜tool_calls>"), std::string::npos)
      << thinking;
  EXPECT_NE(thinking.find("</tool_result><｜Assistant｜><think></think>a<｜end"), std::string::npos)
      << thinking;
  EXPECT_TRUE(thinking.ends_with("<｜User｜>v<｜Assistant｜><think>"));
  EXPECT_NE(chat.find("<｜Assistant｜></think>\n\n<｜DSML｜tool_calls>"), std::string::npos) << chat;
  EXPECT_TRUE(chat.ends_with("<｜User｜>v<｜Assistant｜></think>"));
  for (const bool drop : {true, false}) {
    EXPECT_TRUE(render_prompt(std::span(messages).subspan(1), {.drop_thinking = drop}).ok());
  }
}

TEST(Render, ContextIsSubtractedByItsOwnLength) {
  // The whole loses the developer, the context alone does not (its last user turn is one): as in the
  // original, what is rendered then starts one turn too late.
  const std::vector<Message> context = {message(Role::kUser, "u1"), message(Role::kDeveloper, "d")};
  const std::vector<Message> messages = {message(Role::kAssistant, "a"), message(Role::kUser, "u2")};
  EXPECT_EQ(render_prompt(messages, {.context = context}).value(),
            std::string(chat_format::kUser) + "u2<｜Assistant｜><think>");
}

TEST(JsonLines, MalformedRequestsGetAnErrorEach) {
  const std::pair<const char*, const char*> kCases[] = {
      {"", "not a line of JSON: byte 0: expected a JSON value, found the end of the text"},
      {"[]", "expected one JSON object a line, found an array"},
      {"{}", "messages: expected an array, found null"},
      {R"({"messages": []})", "thinking_mode: expected \"chat\" or \"thinking\", found null"},
      {R"({"messages": [], "thinking_mode": "chat", "drop_thinking": 1})",
       "drop_thinking: expected true or false, found a number"},
      {R"({"messages": [], "thinking_mode": "chat", "add_default_bos": "no"})",
       "add_default_bos: expected true or false, found a string"},
      {R"({"messages": [], "thinking_mode": "chat", "reasoning_effort": "low"})",
       "reasoning_effort: expected high or max (prompt profile preview), found \"low\""},
      {R"({"messages": [], "thinking_mode": "chat", "reasoning_effort": 1})",
       "reasoning_effort: expected high or max (prompt profile preview), found \"1\""},
      {R"({"messages": [], "thinking_mode": "chat", "context": [1]})",
       "context[0]: expected an object, found a number"},
  };
  for (const auto& [line, error] : kCases) {
    EXPECT_EQ(encode_chat_line(line, PromptProfile::kPreview),
              "{\"error\": " + quote_python_json(error) + "}");
  }
  EXPECT_EQ(parse_chat_line("{}"), R"({"error": "text: expected a string, found null"})");
  EXPECT_EQ(parse_chat_line(R"({"text": "", "thinking_mode": 1})"),
            R"({"error": "thinking_mode: expected \"chat\" or \"thinking\", found a number"})");
  const std::string deep = R"({"messages": )" + std::string(5000, '[');
  EXPECT_EQ(encode_chat_line(deep, PromptProfile::kPreview),
            R"({"error": "not a line of JSON: byte 1012: nested deeper than 1000 levels"})");
}

/// Instructions before the conversation, and their tools: what other conversations begin with too.
TEST(Render, SaysWhereInstructionsAndToolsEnd) {
  const auto ends = [](const std::vector<Message>& messages) {
    const RenderOptions options{.thinking_mode = ThinkingMode::kChat};
    const RenderedConversation rendered = render_conversation(messages, options).value();
    std::vector<std::string> beginnings;
    for (const std::size_t end : rendered.section_ends)
      beginnings.push_back(rendered.text.text.substr(0, end));
    return beginnings;
  };
  const std::string bos(chat_format::kBos), user(chat_format::kUser);
  const std::vector<Message> plain{message(Role::kSystem, "Be brief."), message(Role::kUser, "Hello.")};
  EXPECT_EQ(ends(plain), std::vector<std::string>{bos + "Be brief."});
  EXPECT_TRUE(ends({plain.back()}).empty());
  EXPECT_TRUE(ends({plain.back(), plain.front()}).empty());  // the conversation has begun

  std::vector<Message> with_tools = plain;
  with_tools.front().tools.push_back(PythonJson::Object{{"name", "weather"}});
  const std::vector<std::string> sections = ends(with_tools);
  ASSERT_EQ(sections.size(), 2U);
  EXPECT_EQ(sections[0], bos + "Be brief.");
  EXPECT_NE(sections[1].find("weather"), std::string::npos);
  const std::string whole = render_prompt(with_tools, {.thinking_mode = ThinkingMode::kChat}).value();
  EXPECT_EQ(whole.substr(sections[1].size(), user.size()), user);

  const std::vector<std::string> two =
      ends({plain.front(), message(Role::kDeveloper, "Use metres."), plain.back()});
  ASSERT_EQ(two.size(), 2U);
  EXPECT_EQ(two[1], bos + "Be brief." + user + "Use metres.");
}

}  // namespace
}  // namespace baleen
