// Whole conversations and completions against stored results: the four published vectors, cases of our own
// (one per rule of the format, written by hand; each line says what it is about), and the larger sets beside
// the repository.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/file.h"
#include "chat/json_lines.h"
#include "chat/message_json.h"
#include "chat/parse.h"
#include "chat/render.h"
#include "spaced_tags.h"

namespace baleen {
namespace {

const std::string kHere = "tests/chat/";
const std::string kShared = "../shared/data/chat_encoding/";

struct Case {
  std::string line;
  PythonJson json;
};

std::vector<Case> read_cases(const std::string& path) {
  std::vector<Case> cases;
  const std::string text = read_text_file(path);
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin);
    const std::string line = text.substr(begin, end - begin);
    cases.push_back({line, parse_python_json(line).value()});
    begin = end == std::string::npos ? text.size() : end + 1;
  }
  return cases;
}

std::string text_of(const PythonJson& object, std::string_view name) {
  const PythonJson* value = object.find(name);
  return value == nullptr || value->as_string() == nullptr ? "" : *value->as_string();
}

void expect_prompts(const std::string& path, std::size_t num_cases,
                    PromptProfile profile = PromptProfile::kPreview) {
  const std::vector<Case> cases = read_cases(path);
  EXPECT_EQ(cases.size(), num_cases);
  for (const Case& c : cases) {
    const PythonJson reply = parse_python_json(encode_chat_line(c.line, profile)).value();
    ASSERT_NE(reply.find("prompt"), nullptr) << c.line << "\n" << text_of(reply, "error");
    EXPECT_EQ(text_of(reply, "prompt"), text_of(c.json, "prompt")) << text_of(c.json, "about");
  }
}

/// A stored error is a part of our sentence where `own_errors`, otherwise only the fact counts. The cases are
/// V4's, whose tags are written as the profile has them.
void expect_messages(const std::string& path, std::size_t num_cases, bool own_errors,
                     PromptProfile profile = PromptProfile::kPreview) {
  const bool is_spaced = profile == PromptProfile::kV41;
  const std::vector<Case> cases = read_cases(path);
  EXPECT_EQ(cases.size(), num_cases);
  for (const Case& c : cases) {
    const std::string reply = parse_chat_line(is_spaced ? test::in_spaced_tags(c.line) : c.line, profile);
    if (const PythonJson* message = c.json.find("message")) {
      EXPECT_EQ(reply, "{\"message\": " + dump_python_json(*message) + "}") << c.line;
    } else {
      const std::string error = text_of(parse_python_json(reply).value(), "error");
      EXPECT_NE(error, "") << c.line << "\n" << reply;
      const std::string part = own_errors ? text_of(c.json, "error") : "";
      EXPECT_NE(error.find(part), std::string::npos) << c.line << "\n" << error;
    }
  }
}

TEST(Golden, OwnPrompts) { expect_prompts(kHere + "goldens/encode.jsonl", 46); }
TEST(Golden, OwnPromptsOfTheOfficialProfile) {
  expect_prompts(kHere + "goldens/encode_official.jsonl", 14, PromptProfile::kOfficial);
}
TEST(Golden, OwnPromptsOfV41) { expect_prompts(kHere + "goldens/encode_v41.jsonl", 41, PromptProfile::kV41); }
TEST(Golden, OwnCompletions) { expect_messages(kHere + "goldens/parse.jsonl", 48, true); }

TEST(Golden, OwnCompletionsInSpacedTags) {
  expect_messages(kHere + "goldens/parse.jsonl", 48, true, PromptProfile::kV41);
}

TEST(Golden, SharedPrompts) {
  if (!std::filesystem::exists(kShared)) GTEST_SKIP() << kShared << " is not here";
  expect_prompts(kShared + "encode_cases.jsonl", 60);
}

TEST(Golden, SharedCompletions) {
  if (!std::filesystem::exists(kShared)) GTEST_SKIP() << kShared << " is not here";
  expect_messages(kShared + "parse_cases.jsonl", 40, false);
}

/// The published input: a list of messages, or an object that keeps the tools of the first message apart.
std::vector<Message> vector_messages(int number) {
  const std::string text = read_text_file(kHere + "vectors/test_input_" + std::to_string(number) + ".json");
  const PythonJson json = parse_python_json(text).value();
  if (json.as_array() != nullptr) return messages_from_json(json).value();
  std::vector<Message> messages = messages_from_json(*json.find("messages")).value();
  for (const PythonJson& tool : *json.find("tools")->as_array())
    messages[0].tools.push_back(*tool.find("function"));
  return messages;
}

void expect_same_reply(const Message& got, const Message& want) {
  EXPECT_EQ(got.content, want.content);
  EXPECT_EQ(got.reasoning_content, want.reasoning_content);
  ASSERT_EQ(got.tool_calls.size(), want.tool_calls.size());
  for (std::size_t i = 0; i < got.tool_calls.size(); ++i) {
    EXPECT_EQ(got.tool_calls[i].name, want.tool_calls[i].name);
    EXPECT_EQ(got.tool_calls[i].arguments, want.tool_calls[i].arguments);
  }
}

TEST(Golden, PublishedVectors) {
  for (int number = 1; number <= 4; ++number) {
    const std::vector<Message> messages = vector_messages(number);
    const auto mode = number == 4 ? ThinkingMode::kChat : ThinkingMode::kThinking;
    const Result<std::string> prompt = render_prompt(messages, {.thinking_mode = mode});
    ASSERT_TRUE(prompt) << prompt.error();
    EXPECT_EQ(prompt.value(),
              read_text_file(kHere + "vectors/test_output_" + std::to_string(number) + ".txt"));
  }
}

TEST(Golden, PublishedVectorsParseBack) {
  const struct {
    int vector;
    std::size_t message;
    std::size_t turn;  ///< the how-manieth <think> of the prompt opens it, from 0
  } kTurns[] = {{1, 2, 0}, {1, 4, 1}, {2, 4, 0}, {3, 3, 0}, {3, 5, 1}};
  for (const auto& [vector, message, turn] : kTurns) {
    const std::vector<Message> messages = vector_messages(vector);
    const std::string prompt = render_prompt(messages, {}).value();
    const std::string_view open = "<｜Assistant｜><think>", close = "<｜end▁of▁sentence｜>";
    std::size_t begin = prompt.find(open);
    for (std::size_t i = 0; i < turn; ++i) begin = prompt.find(open, begin + 1);
    ASSERT_NE(begin, std::string::npos);
    begin += open.size();
    const std::size_t end = prompt.find(close, begin) + close.size();
    const Result<Message> parsed =
        parse_completion(prompt.substr(begin, end - begin), ThinkingMode::kThinking);
    ASSERT_TRUE(parsed) << parsed.error();
    expect_same_reply(parsed.value(), messages[message]);
  }
}

}  // namespace
}  // namespace baleen
