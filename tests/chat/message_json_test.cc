// Messages from JSON: what is taken, what is refused and where the sentence points; and back.
#include "chat/message_json.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

namespace baleen {
namespace {

Result<std::vector<Message>> read(std::string_view text) {
  return messages_from_json(parse_python_json(text).value());
}

std::string error_of(std::string_view text) {
  const auto messages = read(text);
  return messages ? "" : messages.error();
}

TEST(MessageJson, ReadsEveryField) {
  const auto messages = read(R"([
    {"role": "system", "content": "s", "tools": [{"type": "function", "function": {"name": "f"}}],
     "response_format": {"type": "object"}},
    {"role": "assistant", "content": null, "reasoning_content": "r", "task": "title", "wo_eos": true, "mask": 1,
     "tool_calls": [{"id": "a", "function": {"name": "f", "arguments": "{}"}},
                    {"function": {"id": "b", "name": "g", "arguments": ""}}]},
    {"role": "tool", "tool_call_id": "a", "content": [{"type": "text", "text": "t"}, {"type": "audio"}]},
    {"role": "wizard", "content": "w"}])");
  ASSERT_TRUE(messages) << messages.error();
  const std::vector<Message>& m = messages.value();
  ASSERT_EQ(m.size(), 4u);
  EXPECT_EQ(m[0].role, Role::kSystem);
  ASSERT_EQ(m[0].tools.size(), 1u);
  EXPECT_EQ(dump_python_json(m[0].tools[0]), "{\"name\": \"f\"}");
  EXPECT_EQ(dump_python_json(m[0].response_format), "{\"type\": \"object\"}");
  EXPECT_EQ(m[1].content, "");
  EXPECT_EQ(m[1].reasoning_content, "r");
  EXPECT_EQ(m[1].task, Task::kTitle);
  EXPECT_TRUE(m[1].wo_eos);
  ASSERT_EQ(m[1].tool_calls.size(), 2u);
  EXPECT_EQ(m[1].tool_calls[0].id, "a");
  EXPECT_EQ(m[1].tool_calls[1].id, "b");
  EXPECT_EQ(m[2].content, "t\n\n[Unsupported audio]");
  EXPECT_EQ(m[2].tool_call_id, "a");
  EXPECT_EQ(m[3].role, Role::kUnknown);
  EXPECT_EQ(role_name(m[3]), "wizard");
}

TEST(MessageJson, RefusesWithThePlace) {
  const struct {
    const char* text;
    const char* error;
  } kCases[] = {
      {"{}", "messages: expected an array, found an object"},
      {"[1]", "messages[0]: expected an object, found a number"},
      {"[{}]", "messages[0].role: expected a string, found nothing"},
      {R"([{"role": null}])", "messages[0].role: expected a string, found null"},
      {R"([{"role": "user", "content": null}])", "messages[0].content: expected a string, found null"},
      {R"([{"role": "user", "content": []}])", "messages[0].content: expected a string, found an array"},
      {R"([{"role": "tool", "content": null}])", "messages[0].content: expected a string, found null"},
      {R"([{"role": "tool", "content": {}}])", "messages[0].content: expected a string, found an object"},
      {R"([{"role": "tool", "content": ["a"]}])",
       "messages[0].content[0]: expected an object, found a string"},
      {R"([{"role": "tool", "content": [{}]}])",
       "messages[0].content[0].type: expected a string, found nothing"},
      {R"([{"role": "tool", "content": [{"type": "text", "text": 1}]}])",
       "messages[0].content[0].text: expected a string, found a number"},
      {R"([{"role": "latest_reminder"}])", "messages[0].content: expected a string, found nothing"},
      {R"([{"role": "system"}, {"role": "assistant", "content": true}])",
       "messages[1].content: expected a string, found a boolean"},
      {R"([{"role": "assistant", "tool_calls": {}}])",
       "messages[0].tool_calls: expected an array, found an object"},
      {R"([{"role": "assistant", "tool_calls": [{}]}])",
       "messages[0].tool_calls[0].function: expected an object, found nothing"},
      {R"([{"role": "assistant", "tool_calls": [{"function": {"arguments": "{}"}}]}])",
       "messages[0].tool_calls[0].function.name: expected a string, found nothing"},
      {R"([{"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": {}}}]}])",
       "messages[0].tool_calls[0].function.arguments: expected a string, found an object"},
      {R"([{"role": "assistant", "tool_calls": [{"id": 7, "function": {"name": "f", "arguments": ""}}]}])",
       "messages[0].tool_calls[0].id: expected a string, found a number"},
      {R"([{"role": "system", "tools": [{"name": "f"}]}])",
       "messages[0].tools[0].function: expected an object, found nothing"},
      {R"([{"role": "system", "response_format": "json"}])",
       "messages[0].response_format: expected an object, found a string"},
      {R"([{"role": "user", "content": "", "task": "dance"}])",
       "messages[0].task: expected action, query, authority, domain, title or read_url, found \"dance\""},
      {R"([{"role": "user", "content": "", "task": 3}])",
       "messages[0].task: expected a string, found a number"},
      {R"([{"role": "assistant", "wo_eos": 1}])",
       "messages[0].wo_eos: expected true or false, found a number"},
  };
  for (const auto& [text, error] : kCases) EXPECT_EQ(error_of(text), error) << text;
}

TEST(MessageJson, ModesAndEfforts) {
  EXPECT_EQ(thinking_mode_from_json("chat").value(), ThinkingMode::kChat);
  EXPECT_EQ(thinking_mode_from_json("thinking").value(), ThinkingMode::kThinking);
  EXPECT_EQ(thinking_mode_from_json("none").error(),
            "thinking_mode: expected \"chat\" or \"thinking\", found \"none\"");
  EXPECT_EQ(thinking_mode_from_json({}).error(),
            "thinking_mode: expected \"chat\" or \"thinking\", found null");
  EXPECT_EQ(reasoning_effort_from_json({}).value(), "");
  EXPECT_EQ(reasoning_effort_from_json("max").value(), "max");
  EXPECT_EQ(reasoning_effort_from_json(PythonJson(true)).error(),
            "reasoning_effort: expected null, a string or a whole number, found a boolean");
}

TEST(MessageJson, AnAssistantAlwaysShowsItsThreeParts) {
  Message message;
  message.role = Role::kAssistant;
  EXPECT_EQ(dump_python_json(message_to_json(message)),
            R"({"role": "assistant", "content": "", "reasoning_content": "", "tool_calls": []})");
}

RC_GTEST_PROP(MessageJson, WhatIsWrittenReadsBack, ()) {
  Message message;
  message.role =
      *rc::gen::element(Role::kSystem, Role::kUser, Role::kDeveloper, Role::kAssistant, Role::kTool,
                        Role::kLatestReminder, Role::kDirectSearchResults, Role::kUnknown);
  const auto text = rc::gen::container<std::string>(rc::gen::inRange<char>(0, 127));
  if (message.role == Role::kUnknown) message.unknown_role = *text + "?";  // no known role
  message.content = *text;
  message.reasoning_content = *text;
  message.tool_call_id = *text;
  message.wo_eos = *rc::gen::arbitrary<bool>();
  if (*rc::gen::arbitrary<bool>()) message.task = *rc::gen::element(Task::kAction, Task::kReadUrl);
  if (*rc::gen::arbitrary<bool>()) message.tool_calls.push_back({*text, *text, *text});
  if (*rc::gen::arbitrary<bool>()) message.tools.emplace_back(PythonJson::Object{{"name", *text}});
  if (*rc::gen::arbitrary<bool>()) message.response_format = PythonJson::Object{{*text, PythonJson(true)}};
  const std::string written = dump_python_json(message_to_json(message));
  const auto again = messages_from_json(PythonJson(PythonJson::Array{parse_python_json(written).value()}));
  RC_ASSERT(again.ok());
  RC_ASSERT(again.value()[0].role == message.role);
  RC_ASSERT(again.value()[0].task == message.task);
  RC_ASSERT(dump_python_json(message_to_json(again.value()[0])) == written);
}

}  // namespace
}  // namespace baleen
